"""An agent of the OpenAI Agents SDK, traced by OpenInference: two turns of one session, whose root spans say nothing."""

import os

from agents import Agent, Runner, set_default_openai_api
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

TURNS = ["Where is my parcel?", "And when will it arrive?"]


def main() -> None:
    os.environ["OPENAI_BASE_URL"] = os.environ["MODEL"]
    os.environ["OPENAI_API_KEY"] = "none"
    tracers = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    spans = OTLPSpanExporter(endpoint=os.environ["ORIGIN"] + "/v1/traces", headers={"x-api-key": os.environ["API_KEY"]})
    tracers.add_span_processor(BatchSpanProcessor(spans))
    OpenAIAgentsInstrumentor().instrument(tracer_provider=tracers)
    set_default_openai_api("chat_completions")

    agent = Agent(name="shop", instructions="You are a shop's agent.", model="test")
    said = []
    for turn in TURNS:
        with using_session("talk"):
            said.append({"role": "user", "content": turn})
            said = Runner.run_sync(agent, said).to_input_list()
    tracers.shutdown()
    print("done")


main()
