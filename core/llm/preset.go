package llm

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Preset is what is known of a provider. Models are those of the time of writing; the
// server's own list (`lj models`) is what counts.
type Preset struct {
	Name       string   // as in the settings
	Aliases    []string // other names
	BaseURL    string
	KeyEnv     string // the environment variable that usually holds the key; "" for none
	Model      string // default model; "" means the first that the server offers
	CheapModel string // for summaries and the like; "" means Model
	Note       string // what a user should know, one sentence; may be empty

	// MaxTokens is the name of the request's field for the output limit.
	MaxTokens string
	// ModelsHeader says that the list of models wants the key as x-api-key.
	ModelsHeader bool

	hosts []string // host names, and domains that begin with a dot
}

// The names of the output limit.
const (
	fieldMaxTokens           = "max_tokens"
	fieldMaxCompletionTokens = "max_completion_tokens"
)

// Presets returns all presets. The slice is the caller's.
func Presets() []Preset {
	return []Preset{
		{Name: "openai", BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY", Model: "gpt-4o", CheapModel: "gpt-4o-mini",
			MaxTokens: fieldMaxCompletionTokens, hosts: []string{"api.openai.com"}},
		{Name: "anthropic", Aliases: []string{"claude"}, BaseURL: "https://api.anthropic.com/v1/", KeyEnv: "ANTHROPIC_API_KEY",
			Model: "claude-sonnet-4-5", CheapModel: "claude-haiku-4-5", ModelsHeader: true, hosts: []string{"api.anthropic.com"},
			Note: "the OpenAI-compatible endpoint has no prompt caching and returns no thinking: long sessions cost more than on the native API"},
		{Name: "deepseek", BaseURL: "https://api.deepseek.com/v1", KeyEnv: "DEEPSEEK_API_KEY", Model: "deepseek-chat", hosts: []string{"api.deepseek.com"}},
		{Name: "qwen", Aliases: []string{"dashscope", "alibaba"}, BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", KeyEnv: "DASHSCOPE_API_KEY",
			Model: "qwen-max", CheapModel: "qwen-flash", hosts: []string{".dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"}},
		{Name: "moonshot", Aliases: []string{"kimi"}, BaseURL: "https://api.moonshot.cn/v1", KeyEnv: "MOONSHOT_API_KEY", Model: "kimi-latest",
			hosts: []string{"api.moonshot.cn", "api.moonshot.ai"}, Note: "keys of api.moonshot.cn and api.moonshot.ai are not interchangeable"},
		{Name: "zhipu", Aliases: []string{"glm", "bigmodel"}, BaseURL: "https://open.bigmodel.cn/api/paas/v4", KeyEnv: "ZHIPUAI_API_KEY",
			Model: "glm-4.6", CheapModel: "glm-4-flash", hosts: []string{"open.bigmodel.cn", "api.z.ai"}},
		{Name: "volcengine", Aliases: []string{"ark", "doubao"}, BaseURL: "https://ark.cn-beijing.volces.com/api/v3", KeyEnv: "ARK_API_KEY",
			Model: "doubao-seed-1-6-250615", CheapModel: "doubao-seed-1-6-flash-250615", hosts: []string{".volces.com"}},
		{Name: "siliconflow", BaseURL: "https://api.siliconflow.cn/v1", KeyEnv: "SILICONFLOW_API_KEY", Model: "deepseek-ai/DeepSeek-V3",
			CheapModel: "Qwen/Qwen3-8B", hosts: []string{"api.siliconflow.cn", "api.siliconflow.com"}},
		{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY", Model: "openrouter/auto", hosts: []string{"openrouter.ai"}},
		{Name: "gemini", Aliases: []string{"google"}, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", KeyEnv: "GEMINI_API_KEY",
			Model: "gemini-2.5-pro", CheapModel: "gemini-2.5-flash", hosts: []string{"generativelanguage.googleapis.com"}},
		{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", KeyEnv: "GROQ_API_KEY", Model: "llama-3.3-70b-versatile",
			CheapModel: "llama-3.1-8b-instant", MaxTokens: fieldMaxCompletionTokens, hosts: []string{"api.groq.com"}},
		{Name: "mistral", BaseURL: "https://api.mistral.ai/v1", KeyEnv: "MISTRAL_API_KEY", Model: "mistral-large-latest", CheapModel: "mistral-small-latest",
			hosts: []string{"api.mistral.ai"}},
		{Name: "xai", Aliases: []string{"grok"}, BaseURL: "https://api.x.ai/v1", KeyEnv: "XAI_API_KEY", Model: "grok-4", CheapModel: "grok-3-mini", hosts: []string{"api.x.ai"}},
		{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1", Note: "runs on this machine and needs no key; models are pulled with `ollama pull`"},
	}
}

// PresetNamed returns the preset of that name or alias, in any case.
func PresetNamed(name string) (Preset, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, p := range Presets() {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, true
		}
	}
	return Preset{}, false
}

// PresetFor returns the preset whose server a base URL belongs to.
func PresetFor(baseURL string) (Preset, bool) {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || u.Host == "" {
		return Preset{}, false
	}
	host := strings.ToLower(u.Hostname())
	for _, p := range Presets() {
		if p.Name == "ollama" && u.Port() == "11434" {
			return p, true
		}
		for _, h := range p.hosts {
			if host == strings.TrimPrefix(h, ".") || h[0] == '.' && strings.HasSuffix(host, h) {
				return p, true
			}
		}
	}
	return Preset{}, false
}

// isLoopback says whether a host, with or without port, is this machine.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
