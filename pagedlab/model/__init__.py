"""The language model: Llama in torch, its weights and its tokenizer."""
