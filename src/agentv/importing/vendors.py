"""What promptfoo's providers are here: vendors with their addresses, variables and settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Vendor:
    """The provider of a target for the models of a vendor."""

    provider: str
    key: str | None = None
    """The environment variable of the API key; None if the provider finds its credentials on its own."""
    base_url: str | None = None
    modes: tuple[str, ...] = ()
    """Words that can follow the vendor, before the model."""


def _compatible(base_url: str, key: str | None, *modes: str) -> Vendor:
    return Vendor("openai_compatible", key, base_url, ("chat", *modes))


_AZURE = Vendor("azure", "AZURE_API_KEY", modes=("chat",))
_ALIBABA = _compatible("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY")
VENDORS = {
    "openai": Vendor("openai", "OPENAI_API_KEY", modes=("chat", "responses")),
    "anthropic": Vendor("anthropic", "ANTHROPIC_API_KEY", modes=("messages",)),
    "azure": _AZURE,
    "azureopenai": _AZURE,
    "ollama": Vendor("ollama", modes=("chat",)),
    "google": Vendor("gemini"),
    "mistral": Vendor("mistral"),
    "groq": Vendor("groq"),
    "openrouter": Vendor("openrouter"),
    "bedrock": Vendor("bedrock", modes=("converse",)),
    "abliteration": _compatible("https://api.abliteration.ai/v1", "ABLIT_KEY"),
    "aimlapi": _compatible("https://api.aimlapi.com/v1", "AIML_API_KEY"),
    "alibaba": _ALIBABA,
    "alicloud": _ALIBABA,
    "aliyun": _ALIBABA,
    "dashscope": _ALIBABA,
    "atlascloud": _compatible("https://api.atlascloud.ai/v1", "ATLASCLOUD_API_KEY"),
    "cerebras": _compatible("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    "cohere": _compatible("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "cometapi": _compatible("https://api.cometapi.com/v1", "COMETAPI_KEY"),
    "deepseek": _compatible("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "docker": _compatible("http://localhost:12434/engines/v1", None),
    "fireworks": _compatible("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "github": _compatible("https://models.github.ai/inference", "GITHUB_TOKEN"),
    "hyperbolic": _compatible("https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    "litellm": _compatible("http://0.0.0.0:4000", "LITELLM_API_KEY"),
    "llama": _compatible("http://localhost:8080/v1", None),
    "llamaapi": _compatible("https://api.llama.com/compat/v1", "LLAMA_API_KEY"),
    "localai": _compatible("http://localhost:8080/v1", None),
    "meta": _compatible("https://api.meta.ai/v1", "META_API_KEY"),
    "minimax": _compatible("https://api.minimax.io/v1", "MINIMAX_API_KEY"),
    "moonshot": _compatible("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    "novita": _compatible("https://api.novita.ai/openai/v1", "NOVITA_API_KEY"),
    "nscale": _compatible("https://inference.api.nscale.com/v1", "NSCALE_SERVICE_TOKEN"),
    "nvidia": _compatible("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "orcarouter": _compatible("https://api.orcarouter.ai/v1", "ORCAROUTER_API_KEY"),
    "perplexity": _compatible("https://api.perplexity.ai", "PERPLEXITY_API_KEY"),
    "togetherai": _compatible("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "truefoundry": _compatible("https://llm-gateway.truefoundry.com", "TRUEFOUNDRY_API_KEY"),
    "vercel": _compatible("https://ai-gateway.vercel.sh/v1", "VERCEL_AI_GATEWAY_API_KEY"),
    "xai": _compatible("https://api.x.ai/v1", "XAI_API_KEY", "responses"),
}
OTHER_MODES = {
    *("agent", "agents", "arn", "assistant", "audio", "chatkit", "claude-agent-sdk", "claude-code", "codex"),
    *("codex-app-server", "codex-sdk", "completion", "embedding", "embeddings", "feature-extraction", "foundry-agent"),
    *("image", "inpaint", "kb", "live", "mantle", "moderation", "realtime", "responses", "speech", "transcription"),
    *("tts", "video", "voice", "openrouter"),
}
"""Modes of promptfoo's providers that no provider here has."""

SETTINGS = {
    "temperature": "temperature",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "maxOutputTokens": "max_output_tokens",
    "maxTokens": "max_output_tokens",
    "max_new_tokens": "max_output_tokens",
    "max_gen_len": "max_output_tokens",
    "num_predict": "max_output_tokens",
    "top_p": "top_p",
    "topP": "top_p",
    "apiBaseUrl": "base_url",
    "baseUrl": "base_url",
    "headers": "headers",
    "maxRetries": "max_retries",
}
"""Settings of every model."""
GROUPS = ("inferenceConfig", "interfaceConfig", "generationConfig")
"""Settings that contain settings."""
OWN_SETTINGS = {
    "bedrock": {"region": "region", "profile": "profile", "endpoint": "base_url"},
    "azure": {"apiVersion": "api_version"},
}
CHAT_FIELDS = (
    *("audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "metadata", "modalities"),
    *("parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_retention"),
    *("reasoning_effort", "response_format", "seed", "service_tier", "stop", "store", "tool_choice", "tools", "top_k"),
    *("top_logprobs", "user", "verbosity", "web_search_options", "search_domain_filter", "search_recency_filter"),
    *("search_after_date_filter", "search_before_date_filter", "return_related_questions", "include_reasoning"),
    *("reasoning_format", "reasoning", "thinking", "repetition_penalty", "min_p", "search_parameters"),
)
RESPONSES_FIELDS = (
    *(
        "include",
        "instructions",
        "search_parameters",
        "max_tool_calls",
        "metadata",
        "parallel_tool_calls",
        "previous_response_id",
    ),
    *(
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning",
        "service_tier",
        "store",
        "text",
        "tool_choice",
        "tools",
    ),
    *("truncation", "user", "background"),
)
FIELDS = {
    "openai": CHAT_FIELDS,
    "azure": CHAT_FIELDS,
    "groq": CHAT_FIELDS,
    "mistral": CHAT_FIELDS,
    "openrouter": CHAT_FIELDS,
    "ollama": CHAT_FIELDS,
    "openai_compatible": CHAT_FIELDS,
    "bedrock": ("thinking", "reasoningConfig", "reasoning_effort", "top_k", "topK", "anthropic_beta"),
    "gemini": ("tools", "toolConfig", "tool_config", "safetySettings", "systemInstruction"),
    "anthropic": ("metadata", "stop_sequences", "tool_choice", "tools", "top_k", "output_config"),
}
"""Settings that become fields of the request, in `extra_body`."""
GENERATION_FIELDS = (
    *("topK", "thinkingConfig", "responseSchema", "response_schema", "responseMimeType", "response_mime_type"),
    *("responseModalities", "response_modalities", "stopSequences", "candidateCount", "seed", "speechConfig"),
)
"""Settings of Gemini that become fields of `generationConfig` in the request."""
WITHOUT_EFFECT = {
    *("apiHost", "model", "cost", "workspaceUrl", "isPayPerToken", "gatewayUrl", "router", "stream", "usage_tier"),
    *("inputCost", "outputCost", "inferenceModelType"),
}
"""Settings that are read elsewhere, or that do not affect the answer here."""
