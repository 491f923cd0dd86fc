"""A model that answers from a script: no key, no network, the same words every time.

Owns how ADK asks a model and how a model answers (chunks, tool calls, token counts). What is
answered is not its business: that is the script, a plain function from a `Turn` to a reply.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from typing_extensions import override

# About four letters make a token in English; a demo needs no better guess.
LETTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model wants called."""

    tool: str
    """The tool's name."""
    args: Mapping[str, Any]
    """Its arguments, by name."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back."""

    tool: str
    """The tool's name."""
    response: Mapping[str, Any]
    """Its answer; a failed tool answers with the key `error`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model has to answer now."""

    text: str
    """What the user said last."""
    results: tuple[ToolResult, ...]
    """What tools answered since then, in order; empty when none was called yet."""


Reply = str | Sequence[Call]
"""A final text, or tools to call before the next reply."""

Script = Callable[[Turn], Reply]


class ScriptedModel(BaseLlm):
    """Answers each request with what its script says to the last turn."""

    model: str = "scripted-small-1"
    script: Script

    @override
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        reply = self.script(read_turn(llm_request.contents))
        if stream and isinstance(reply, str):
            for chunk in _chunks(reply):
                yield LlmResponse(content=_model_content([types.Part(text=chunk)]), partial=True)
        parts = _parts(reply)
        yield LlmResponse(
            content=_model_content(parts),
            partial=False,
            model_version=self.model,
            finish_reason=types.FinishReason.STOP,
            usage_metadata=_usage(llm_request, parts),
        )


def read_turn(contents: Sequence[types.Content]) -> Turn:
    """Returns the last thing the user said and what tools answered since then."""
    text = ""
    results: list[ToolResult] = []
    for content in contents:
        for part in content.parts or []:
            if part.function_response is not None:
                answer = part.function_response
                results.append(ToolResult(answer.name or "", answer.response or {}))
            elif part.text and content.role == "user":
                text, results = part.text, []
    return Turn(text, tuple(results))


def _chunks(text: str) -> Iterator[str]:
    words = text.split(" ")
    for index, word in enumerate(words):
        yield word if index == 0 else f" {word}"


def _parts(reply: Reply) -> list[types.Part]:
    if isinstance(reply, str):
        return [types.Part(text=reply)]
    return [types.Part.from_function_call(name=call.tool, args=dict(call.args)) for call in reply]


def _model_content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)


def _usage(
    request: LlmRequest, answer: list[types.Part]
) -> types.GenerateContentResponseUsageMetadata:
    instruction = request.config.system_instruction
    letters = len(instruction) if isinstance(instruction, str) else 0
    letters += sum(_letters(content.parts or []) for content in request.contents)
    prompt = letters // LETTERS_PER_TOKEN + 1
    output = _letters(answer) // LETTERS_PER_TOKEN + 1
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=output,
        total_token_count=prompt + output,
    )


def _letters(parts: Sequence[types.Part]) -> int:
    return sum(len(part.model_dump_json(exclude_none=True)) for part in parts)
