"""Makes a tiny model file that real llama.cpp loads and that says words known beforehand.

All attention and feed-forward weights are zero, so a token's embedding reaches the output unchanged. Embeddings
are one-hot, and the output matrix is a shift: any prompt leads to word 1, word 1 to word 2, and the last one to
the end token (or back to word 1: an endless answer that runs until the context is full). The logits are far
enough apart that every temperature up to 1 gives the same answer.

`layers`, `embd` and `ff` cost what they cost in a real model: 24 x 512 x 2048 makes a file of 400 MB and a
stream slow enough to be seen, cut and drained.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

WORDS = "Hello from a tiny model that runs for real on this CPU ."

_PEAK = 100.0  # the logit of the token meant; all others are 0
_HEADS = 4
# How tools and calls are written tells llama.cpp what a call in an answer looks like: `<tool_call>{"name": ...}`.
_TEMPLATE = (
    "{% if tools %}{% for tool in tools %}<|tool|>{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for call in m.tool_calls or [] %}"
    '<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>'
    "{% endfor %}\n{% endfor %}<|assistant|>"
)

Matrix = npt.NDArray[np.float32]


def make_model(
    path: Path,
    *,
    words: str = WORDS,
    layers: int = 2,
    embd: int = 256,
    ff: int = 256,
    context_tokens: int = 4096,
    endless: bool = False,
    name: str = "tiny",
) -> None:
    """Write the model to `path`; a file there appears whole or not at all.

    Args:
        words: what it says, split at spaces; each word once.
        layers, embd, ff: blocks, embedding width and feed-forward width; more of each is bigger and slower.
        context_tokens: the longest context the model claims to know.
        endless: start again after the last word instead of ending.
        name: the name inside the file.

    Raises:
        ValueError: no words, one of them twice, too many for `embd`, or an `embd` that 4 heads cannot share.
    """
    said = words.split()
    if not said or len(set(said)) != len(said):
        raise ValueError(f"need at least one word and none twice, got {words!r}")
    if len(said) + 2 > embd or embd % (2 * _HEADS):
        raise ValueError(f"embd must be a multiple of {2 * _HEADS} and at least {len(said) + 2}, got {embd}")
    half_written = path.with_name(f".{path.name}.part")
    writer = gguf.GGUFWriter(str(half_written), "llama")
    _add_shape(writer, name, layers, embd, ff, context_tokens)
    prompt_tokens = _add_vocabulary(writer, said)
    _add_shift(writer, prompt_tokens, len(said), embd, endless)
    for block in range(layers):
        _add_silent_block(writer, block, embd, ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    half_written.rename(path)


def _add_shape(
    writer: gguf.GGUFWriter, name: str, layers: int, embd: int, ff: int, context_tokens: int
) -> None:
    writer.add_name(name)
    writer.add_context_length(context_tokens)
    writer.add_embedding_length(embd)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(embd // _HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_chat_template(_TEMPLATE)


def _add_vocabulary(writer: gguf.GGUFWriter, said: list[str]) -> int:
    """Control tokens, every byte (any prompt has tokens), then the words; returns how many come before."""
    control = ["<unk>", "<s>", "</s>"]
    raw = [f"<0x{byte:02X}>" for byte in range(256)]
    spoken = [
        word if i == 0 else "\u2581" + word for i, word in enumerate(said)
    ]  # the mark stands for a space
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * len(raw) + [gguf.TokenType.NORMAL] * len(spoken)
    before = len(control) + len(raw)
    writer.add_vocab_size(before + len(spoken))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*control, *raw, *spoken])
    writer.add_token_scores([0.0] * before + [-float(i) for i in range(len(spoken))])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    return before


def _add_shift(writer: gguf.GGUFWriter, before: int, word_count: int, embd: int, endless: bool) -> None:
    """Dimension 0 is "any token of the prompt", dimension k "word k"; the output names what follows it."""
    follows = [before + k for k in range(word_count)] + [before if endless else 2]
    embedding = np.zeros((before + word_count, embd), np.float32)
    embedding[:before, 0] = 1.0
    output = np.zeros_like(embedding)
    for dimension, token in enumerate(follows):
        if dimension:
            embedding[before + dimension - 1, dimension] = 1.0
        output[token, dimension] = _PEAK / np.sqrt(
            embd
        )  # the last norm makes a one-hot as long as sqrt(embd)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(embd, np.float32))


def _add_silent_block(writer: gguf.GGUFWriter, block: int, embd: int, ff: int) -> None:
    ones, square, wide = np.ones(embd, np.float32), _zeros(embd, embd), _zeros(ff, embd)
    tensors = {"attn_norm": ones, "ffn_norm": ones}
    tensors |= dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), square)
    tensors |= {"ffn_gate": wide, "ffn_up": wide, "ffn_down": _zeros(embd, ff)}
    for tensor, weights in tensors.items():
        writer.add_tensor(f"blk.{block}.{tensor}.weight", weights)


def _zeros(rows: int, columns: int) -> Matrix:
    return np.zeros((rows, columns), np.float32)


def main() -> None:
    """Write one model file, as asked on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.tiny_model", description="Make a tiny model for llama.cpp."
    )
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--words", default=WORDS, help="what the model says; each word once")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--embd", type=int, default=256)
    parser.add_argument("--ff", type=int, default=256)
    parser.add_argument("--context-tokens", type=int, default=4096)
    parser.add_argument("--endless", action="store_true", help="go on until the context is full")
    parser.add_argument("--name", default="tiny")
    options = vars(parser.parse_args())
    make_model(options.pop("out"), **options)


if __name__ == "__main__":
    main()
