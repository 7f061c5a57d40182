"""A synthesised template, asked in the words of the promises."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMES = ("api", "create", "monitor", "startup", "webhook", "reconcile", "dead_letters", "announce")
QUEUES = ("create", "monitor", "startup", "webhook")

Properties = dict[str, Any]


@dataclass(frozen=True)
class Template:
    file: Path

    @property
    def name(self) -> str:
        """Of the stack."""
        return self.file.name.removesuffix(".template.json")

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.file.read_text())
        return body

    @property
    def watch(self) -> "Template":
        """The stack beside it, of alarms and dashboard."""
        return Template(self.file.with_name(self.file.name.replace("Ostler", "OstlerWatch", 1)))

    @property
    def edge(self) -> "Template":
        """The stack of rate rules, if there is one."""
        return Template(self.file.with_name(self.file.name.replace("Ostler", "OstlerEdge", 1)))

    def resources(self, kind: str) -> dict[str, dict[str, Any]]:
        return {name: entry for name, entry in self.body["Resources"].items() if entry["Type"] == kind}

    def all(self, kind: str) -> dict[str, Properties]:
        return {name: entry["Properties"] for name, entry in self.resources(kind).items()}

    def one(self, kind: str) -> Properties:
        (found,) = self.all(kind).values()
        return found

    def functions(self) -> dict[str, Properties]:
        """By the name of their folder."""
        found = self.all("AWS::Lambda::Function").values()
        return {function["Handler"].split(".")[1]: function for function in found}

    def role(self, name: str) -> Properties:
        return self.all("AWS::IAM::Role")[self.functions()[name]["Role"]["Fn::GetAtt"][0]]

    def queue(self, name: str) -> Properties:
        return self.all("AWS::SQS::Queue")[self.queue_id(name)]

    def queue_id(self, name: str) -> str:
        """The queue that the functions know under this name."""
        reference: str = self.functions()["api"]["Environment"]["Variables"][f"{name.upper()}_QUEUE_URL"][
            "Ref"
        ]
        return reference

    def sources(self) -> dict[str, Properties]:
        """Event sources by the name of the function they wake."""
        names = {
            logical: function["Handler"].split(".")[1]
            for logical, function in self.all("AWS::Lambda::Function").items()
        }
        found = self.all("AWS::Lambda::EventSourceMapping").values()
        return {names[source["FunctionName"]["Ref"]]: source for source in found}


def synthesise(folder: Path, **context: object) -> Template:
    """The real app over a stand-in for the asset: what is inside it is another test's matter."""
    import app  # which starts Node.js, and most who read a template have no need of it

    code = folder / "code"
    code.mkdir()
    (code / "stand_in.py").touch()
    app.build(code, context, str(folder / "out")).synth()
    stage = context.get("stage", "prod")
    name = "Ostler" if stage == "prod" else f"Ostler-{stage}"
    return Template(folder / "out" / f"{name}.template.json")
