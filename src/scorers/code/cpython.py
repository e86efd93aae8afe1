"""The worker process as a Python program: what cpython.rs starts once it has given up privileges. It has modules ready, has the
kernel seal it, and answers one request in the form of frames.rs."""
import json, os, sys  # noqa: E401

# What scripts may import must be loaded before the seal: nothing can be opened behind it.
READY = """abc array ast base64 binascii bisect calendar cmath collections collections.abc colorsys contextlib copy csv ctypes
dataclasses datetime decimal difflib enum fnmatch fractions functools graphlib hashlib heapq hmac html html.parser inspect io
itertools json json.decoder keyword linecache locale math numbers operator pprint random re resource secrets signal statistics
string struct textwrap time token tokenize traceback types typing unicodedata urllib.parse uuid xml.etree.ElementTree zlib
zoneinfo"""
for _name in READY.split():
    try:
        __import__(_name)
    except ImportError:
        pass

import ctypes, inspect, resource, signal, struct, traceback  # noqa: E401

TERMS = json.loads(sys.argv[1])
LONGEST_RESULT = 256 << 10
NO_HANDLER = "the script defines no handler(input, output, expected, metadata, trace)"


WRONG_ARGUMENTS = "handler must take the five arguments input, output, expected, metadata and trace (*args will do): "


class TooLate(BaseException):
    """The soft limit was reached."""


class Trace:
    """What handlers get as `trace`."""

    def __init__(self, spans):
        self.spans = spans

    def get_spans(self, type=None, name=None):
        return [s for s in self.spans if (type is None or s["type"] == type) and (name is None or s["name"] == name)]


def seal():
    with open("/proc/self/status") as status:
        size = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize:"))
    for what, most in ((resource.RLIMIT_AS, size + TERMS["memory"]), (resource.RLIMIT_NOFILE, 3)):
        resource.setrlimit(what, (most, most))
    program = bytes.fromhex(TERMS["filter"])
    held = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    call = ctypes.CDLL(None, use_errno=True).prctl
    call.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    found = Filter(len(program) // 8, ctypes.cast(held, ctypes.c_void_p))
    # PR_SET_DUMPABLE off, then PR_SET_SECCOMP with a filter.
    if call(4, 0, 0, 0, 0) or call(22, 2, ctypes.addressof(found), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no system call filter")


def shorten(text, most):
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters in all)"


def line_of(error):
    own = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "scorer.py"]
    line = own[-1] if own else getattr(error, "lineno", None)
    return f" (line {line})" if line else ""


def why(error):
    if isinstance(error, TooLate):
        return TERMS["late"]
    if isinstance(error, MemoryError):
        return TERMS["memory_out"]
    text = f"{type(error).__name__}: {shorten(str(error), 500)}".removesuffix(": ")
    return text + line_of(error)


def found(value):
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, (int, float)):
        try:
            return {"number": repr(float(value))}
        except OverflowError:
            return {"other": "a number beyond all bounds"}
    return {"other": shorten(repr(value), 150)}


def result(value):
    if not isinstance(value, dict) or "score" not in value:
        return {"found": [found(value), None]}
    try:
        fields = json.dumps({key: field for key, field in value.items() if key != "score"}, allow_nan=False, default=repr)
    except (TypeError, ValueError) as error:
        return {"failed": f"handler returned an object that is no JSON: {error}"}
    if len(fields.encode()) > LONGEST_RESULT:
        return {"failed": f"handler returned more than {LONGEST_RESULT} bytes; at most these are taken"}
    return {"found": [found(value["score"]), json.loads(fields)]}


def settled(value):
    if not inspect.iscoroutine(value):
        return value
    try:
        value.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the handler awaits what nothing can settle: there are no timers and no network here")


def answer(request):
    try:
        reply = looked_at_or_run(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:  # The limit may be reached while an error is being told.
        signal.setitimer(signal.ITIMER_REAL, 0)
        reply = {"refused" if request["input"] is None else "failed": why(error)}
    return reply


def looked_at_or_run(request):
    def too_late(_signal, _frame):
        raise TooLate

    signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, TERMS["soft_ms"] / 1000)
    names = {"__name__": "scorer"}
    given = request["input"]
    bad = "refused" if given is None else "failed"
    try:
        exec(compile(request["script"], "scorer.py", "exec"), names)
    except BaseException as error:
        return {bad: why(error)}
    handler = names.get("handler")
    if not callable(handler):
        return {bad: NO_HANDLER}
    if given is None:
        return takes_its_arguments(handler)
    trace = Trace(given["spans"])
    try:
        value = handler(given["input"], given["output"], given["expected"], given["metadata"], trace)
        return result(settled(value))
    except BaseException as error:
        text = why(error)
        return {"failed": text if isinstance(error, (TooLate, MemoryError)) else f"handler raised {text}"}


def takes_its_arguments(handler):
    try:
        inspect.signature(handler).bind(*range(5))
    except ValueError:
        pass  # Some functions written in C do not say what they take.
    except TypeError as error:
        line = getattr(getattr(handler, "__code__", None), "co_firstlineno", None)
        return {"refused": f"{WRONG_ARGUMENTS}{error}" + (f" (line {line})" if line else "")}
    return "usable"


def read(length):
    parts = b""
    while len(parts) < length:
        part = os.read(0, min(length - len(parts), 1 << 20))
        if not part:
            os._exit(0)
        parts += part
    return parts


def write(reply):
    data = json.dumps(reply).encode()
    data = struct.pack("<I", len(data)) + data
    while data:
        data = data[os.write(1, data) :]


try:
    seal()
except BaseException as error:
    write({"refused": f"its Python can't be sealed: {error}"})
    os._exit(1)
write("ready")
write(answer(json.loads(read(struct.unpack("<I", read(4))[0]))))
os._exit(0)
