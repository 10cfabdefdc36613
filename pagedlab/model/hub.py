"""A model from the Hugging Face hub, where there is internet; one that was fetched before needs none."""

from pathlib import Path

from pagedlab.errors import PagedlabError

FILES = [
    "config.json",
    "generation_config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
]


def hub_folder(name: str) -> Path:
    """The local copy of "owner/name" from the hub, downloaded where it is not there yet. PagedlabError otherwise."""
    try:
        import huggingface_hub  # comes with tokenizers
    except ImportError as error:
        raise PagedlabError(
            f"{name!r} is no local folder, and to fetch it from the hub takes `pip install huggingface_hub`; "
            "without it use 'smollm2', 'tiny-random' or a local folder"
        ) from error
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=FILES, etag_timeout=10))
    except Exception as error:  # some of the library's errors come from its HTTP client and share no base class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PagedlabError(
            f"{name!r} is no local folder, and the Hugging Face hub did not give it: {reason.rstrip('.')}. "
            "Check the name and the connection, or use 'smollm2', 'tiny-random' or a local folder"
        ) from error
