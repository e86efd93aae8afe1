"""An application whose model calls OpenTelemetry's own instrumentation traces: two turns of one session, each a web framework's
span with a call below it. What is said goes into log records, as the environment tells the instrumentation."""

import os

from openai import OpenAI
from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

TURNS = ["Where is my parcel?", "And when will it arrive?"]


def main() -> None:
    resource = Resource.create({"service.name": "shop"})
    headers = {"x-api-key": os.environ["API_KEY"]}
    tracers = TracerProvider(resource=resource)
    spans = OTLPSpanExporter(endpoint=os.environ["ORIGIN"] + "/v1/traces", headers=headers)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    loggers = LoggerProvider(resource=resource)
    logs = OTLPLogExporter(endpoint=os.environ["ORIGIN"] + "/v1/logs", headers=headers)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs))
    set_logger_provider(loggers)
    try:
        # Until 1.39 events had a provider of their own, which writes them as log records.
        from opentelemetry.sdk._events import EventLoggerProvider

        events = {"event_logger_provider": EventLoggerProvider(loggers)}
    except ImportError:
        events = {}
    OpenAIInstrumentor().instrument(tracer_provider=tracers, logger_provider=loggers, **events)

    model = OpenAI(base_url=os.environ["MODEL"], api_key="none")
    messages = [{"role": "system", "content": "You are a shop's agent."}]
    for said in TURNS:
        with trace.get_tracer("web").start_as_current_span("POST /chat", attributes={"session.id": "talk"}):
            messages.append({"role": "user", "content": said})
            reply = model.chat.completions.create(model="test", messages=messages)
            messages.append({"role": "assistant", "content": reply.choices[0].message.content})
    tracers.shutdown()
    loggers.shutdown()
    print("done")


main()
