//go:build go1.25

package platformauth

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The data of ../conformance, whose README says what each word means.

type scenarioFile struct {
	Rule      string
	Scenarios []scenario
}

type scenario struct {
	Name     string
	Verifier struct {
		SecretKey          json.RawMessage `json:"secret_key"`
		SecretKeyPrevious  string          `json:"secret_key_previous"`
		JWKSURL            *string         `json:"jwks_url"`
		OutageGraceSeconds int             `json:"outage_grace_seconds"`
		MaxQuestions       int             `json:"max_questions"`
		Issuer             string
		Audience           string
		KeyFile            *string `json:"key_file"`
	}
	Service map[string][]any
	Steps   []step
}

type step struct {
	At      int
	Present any
	With    [][2]string
	Member  *struct {
		Household any
		Role      Role
	}
	Demands *struct {
		Delegated any
		Scope     string
	}
	TokenFor   *struct{ Target, Scope string } `json:"token_for"`
	Expect     any
	Service    map[string][]any
	KeyFile    json.RawMessage `json:"key_file"`
	WallJumpMS int             `json:"wall_jump_ms"`
	PauseMS    int             `json:"pause_ms"`
	SuspendMS  int             `json:"suspend_ms"`
	Asked      map[string]any
	Last       *struct {
		Path              string
		Headers           map[string]string
		WithoutHeaders    []string `json:"without_headers"`
		Body              fields
		WithoutBodyFields []string `json:"without_body_fields"`
		Used              []fields
	}
	Reported *struct {
		Kind, ID string
		Times    int
	}
	Logged map[string]int
	Causes []string
}

type expectation struct {
	Verdict   string
	Status    int
	Code      string
	Principal fields
	NotBefore int `json:"not_before"`
	By        int
}

type credentialData struct {
	Door    Door
	Headers [][2]string
	Secrets []string
}

type conformance struct {
	Names       map[string]string
	Credentials map[string]credentialData
	JWKS        any
	PrivateJWKS any `json:"private_jwks"`

	answers   map[string]any
	scenarios []scenarioFile
}

const conformanceFolder = "../conformance"

func readConformance(t *testing.T) *conformance {
	t.Helper()
	c := &conformance{}
	readJSON(t, "credentials.json", c, nil)
	readJSON(t, "answers.json", &c.answers, c.fill)
	files, err := filepath.Glob(filepath.Join(conformanceFolder, "scenarios", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		var content scenarioFile
		readJSON(t, filepath.Join("scenarios", filepath.Base(file)), &content, c.fill)
		c.scenarios = append(c.scenarios, content)
	}
	return c
}

// readJSON refuses fields that it does not know: a word of the suite that this runner has not learned is an error.
func readJSON(t *testing.T, name string, target any, fill func(any) any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(conformanceFolder, name))
	if err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		var raw any
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		text, _ = json.Marshal(fill(raw))
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// fill replaces ${name} and a*5000 in every string.
func (c *conformance) fill(value any) any {
	switch value := value.(type) {
	case string:
		switch value {
		case "${jwks}":
			return c.JWKS
		case "${private_jwks}":
			return c.PrivateJWKS
		}
		filled := placeholder.ReplaceAllStringFunc(value, func(match string) string {
			name, ok := c.Names[match[2:len(match)-1]]
			if !ok {
				panic("credentials.json lacks the name " + match)
			}
			return name
		})
		return strings.Replace(filled, "a*5000", strings.Repeat("a", 5000), 1)
	case []any:
		for i := range value {
			value[i] = c.fill(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = c.fill(value[name])
		}
	}
	return value
}

// secrets are those that must never be printed.
func (c *conformance) secrets() []string {
	secrets := []string{
		c.Names["own_app_key"], c.Names["next_own_app_key"], c.Names["secret_key"], c.Names["ocr_token"],
	}
	for _, known := range c.Credentials {
		secrets = append(secrets, known.Secrets...)
	}
	return secrets
}

// resolve returns the answer that a name or an object stands for.
func (c *conformance) resolve(given any) fields {
	if name, isName := given.(string); isName {
		named, ok := c.answers[name]
		if !ok {
			panic("answers.json lacks the answer " + name)
		}
		return c.resolve(named)
	}
	changes := fields(given.(map[string]any))
	name, isChanged := changes["like"]
	if !isChanged {
		return changes
	}
	resolved := fields{}
	for field, value := range c.resolve(name) {
		resolved[field] = value
	}
	for field, value := range changes {
		switch field {
		case "like":
		case "headers", "body":
			resolved[field] = merge(resolved[field], value)
		case "replace_body":
			resolved["body"] = value
		default:
			resolved[field] = value
		}
	}
	return resolved
}

func merge(base, changes any) any {
	changed, isObject := changes.(map[string]any)
	merged, _ := base.(map[string]any)
	if !isObject {
		return changes
	}
	result := map[string]any{}
	for _, source := range []map[string]any{merged, changed} {
		for name, value := range source {
			result[name] = value
		}
	}
	return result
}

// matches compares a number with a count or with the range [least, most].
func matches(actual int, expected any) bool {
	if bounds, isRange := expected.([]any); isRange {
		return float64(actual) >= bounds[0].(float64) && float64(actual) <= bounds[1].(float64)
	}
	return float64(actual) == expected.(float64)
}

func describeStep(s step) string {
	if name, isName := s.Present.(string); isName {
		return fmt.Sprintf("at %d (%s)", s.At, name)
	}
	return fmt.Sprintf("at %d", s.At)
}
