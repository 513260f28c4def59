"""A fake of LlamaIndex, without `llama_index.embeddings`, which is a package of its own."""
