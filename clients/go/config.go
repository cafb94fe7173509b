package platformauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Config says where the authentication service is and who this service is. It prints without its secrets.
type Config struct {
	// URL is the address of the authentication service (AUTH_URL).
	URL string
	// AppID and AppKey are this service's own key for the authentication service (AUTH_APP_ID, AUTH_APP_KEY).
	AppID  string
	AppKey string
	// AppKeyFile is a file with the key, instead of AppKey (AUTH_APP_KEY_FILE). It is read again when the service
	// refuses the key, because a mounted Secret changes while the process runs.
	AppKeyFile string
	// ServiceName is the name of this service in the map of the platform: only keys for this target are accepted
	// (SERVICE_NAME).
	ServiceName string
	// SecretKey verifies HS256 access tokens (SECRET_KEY); SecretKeyPrevious those of the previous secret while it is
	// rotated (SECRET_KEY_PREVIOUS).
	SecretKey         string
	SecretKeyPrevious string
	// JWKSURL verifies ES256 access tokens (AUTH_JWKS_URL). With neither a secret nor this URL, the authentication
	// service verifies each token once.
	JWKSURL string
	// Issuer is the iss of access tokens (JWT_ISSUER). Default: platform-auth.
	Issuer string
	// Audience is the aud of access tokens (JWT_AUDIENCE). Without it, tokens with an audience are refused.
	Audience string
	// OutageGrace is how much longer memory may be used while the authentication service is unreachable; a revoked
	// credential may be accepted during it. At most a minute (AUTH_OUTAGE_GRACE_SECONDS). Default: 0.
	OutageGrace time.Duration
}

// String leaves the secrets out.
func (c Config) String() string { return fmt.Sprintf("Config{%s as %s}", c.URL, c.ServiceName) }

// GoString leaves the secrets out.
func (c Config) GoString() string { return c.String() }

// MarshalText leaves the secrets out.
func (c Config) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// An Option changes how a Verifier works.
type Option func(*options)

type options struct {
	logger       *slog.Logger
	transport    http.RoundTripper
	onVerdict    func(Door, Verdict)
	maxEntries   int
	maxQuestions int
}

// WithLogger sets where the verifier writes its events. They never contain a credential. Default: slog.Default().
func WithLogger(logger *slog.Logger) Option { return func(o *options) { o.logger = logger } }

// WithTransport sends every request to the authentication service through this RoundTripper, which then has to bound
// how long it takes to connect. By default, polls have a connection of their own, and no proxy is used.
func WithTransport(transport http.RoundTripper) Option {
	return func(o *options) { o.transport = transport }
}

// WithOnVerdict calls back at every verdict, on the goroutine of the request: for metrics.
func WithOnVerdict(onVerdict func(Door, Verdict)) Option {
	return func(o *options) { o.onVerdict = onVerdict }
}

// WithMaxEntries bounds the credentials of each door that are remembered. Default: 100,000.
func WithMaxEntries(entries int) Option { return func(o *options) { o.maxEntries = entries } }

// WithMaxQuestions bounds the questions of each door that are in flight or wait; further requests get a 503.
// Credentials that were valid recently go first, and other callers share the rest by their networks. Default: 256.
func WithMaxQuestions(questions int) Option { return func(o *options) { o.maxQuestions = questions } }

// settings are a Config and options with every default filled in, and without the own key as text.
type settings struct {
	options
	url, serviceName string
	secrets          [][]byte
	jwksURL          string
	issuer, audience string
	outageGrace      time.Duration
	ownKey           *ownKey
	secretsToRedact  []string
}

const (
	defaultIssuer       = "platform-auth"
	defaultMaxEntries   = 100_000
	defaultMaxQuestions = 256
	maxOutageGrace      = time.Minute
	minSecretBytes      = 32
)

var (
	serviceNameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	idForm          = regexp.MustCompile(`(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	numberForm      = regexp.MustCompile(`^\d{1,9}(?:\.\d{1,9})?$`)
)

// readEnvironment reads the variables that `platform-auth init` writes. An empty one counts as unset.
func readEnvironment() (Config, error) {
	get := func(name string) string { return strings.TrimSpace(os.Getenv(name)) }
	// Not trimmed, because the service signs with every byte of a secret.
	getSecret := func(name string) string {
		if get(name) == "" {
			return ""
		}
		return os.Getenv(name)
	}
	required := []string{"AUTH_URL", "AUTH_APP_ID", "AUTH_APP_KEY", "SERVICE_NAME"}
	if get("AUTH_APP_KEY_FILE") != "" {
		required = []string{"AUTH_URL", "AUTH_APP_ID", "SERVICE_NAME"}
	}
	var missing []string
	for _, name := range required {
		if get(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return Config{}, fmt.Errorf("platformauth: not set: %s", strings.Join(missing, ", "))
	}
	grace := 0.0
	if text := get("AUTH_OUTAGE_GRACE_SECONDS"); text != "" {
		if !numberForm.MatchString(text) {
			return Config{}, errors.New("platformauth: AUTH_OUTAGE_GRACE_SECONDS must be 0 to 60")
		}
		grace, _ = strconv.ParseFloat(text, 64)
	}
	return Config{
		URL:               get("AUTH_URL"),
		AppID:             get("AUTH_APP_ID"),
		AppKey:            get("AUTH_APP_KEY"),
		AppKeyFile:        get("AUTH_APP_KEY_FILE"),
		ServiceName:       get("SERVICE_NAME"),
		SecretKey:         getSecret("SECRET_KEY"),
		SecretKeyPrevious: getSecret("SECRET_KEY_PREVIOUS"),
		JWKSURL:           get("AUTH_JWKS_URL"),
		Issuer:            get("JWT_ISSUER"),
		Audience:          get("JWT_AUDIENCE"),
		OutageGrace:       time.Duration(grace * float64(time.Second)),
	}, nil
}

// toSettings returns an error that names every setting which is missing or not valid, and shows none.
func toSettings(config Config, given []Option) (settings, error) {
	s := settings{
		options:     options{logger: slog.Default(), maxEntries: defaultMaxEntries, maxQuestions: defaultMaxQuestions},
		url:         strings.TrimRight(config.URL, "/"),
		serviceName: config.ServiceName,
		jwksURL:     config.JWKSURL,
		issuer:      config.Issuer,
		audience:    config.Audience,
		outageGrace: config.OutageGrace,
	}
	for _, option := range given {
		option(&s.options)
	}
	if s.issuer == "" {
		s.issuer = defaultIssuer
	}
	for _, secret := range []string{config.SecretKey, config.SecretKeyPrevious} {
		if secret != "" {
			s.secrets = append(s.secrets, []byte(secret))
			s.secretsToRedact = append(s.secretsToRedact, secret)
		}
	}
	mistakes := findMistakes(config, s.options)
	key, err := newOwnKey(config)
	if err != nil {
		mistakes = append(mistakes, err)
	}
	if len(mistakes) > 0 {
		return settings{}, fmt.Errorf("platformauth: %w", errors.Join(mistakes...))
	}
	s.ownKey = key
	s.logger = slog.New(logHandler{s.logger.With("service", s.serviceName).Handler()})
	return s, nil
}

// A logHandler catches panics of the handler, which must not end the polls.
type logHandler struct{ slog.Handler }

func (h logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	defer reportFailedLogger()
	return h.Handler.Enabled(ctx, level)
}

func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	defer reportFailedLogger()
	return h.Handler.Handle(ctx, record)
}

func reportFailedLogger() {
	if recovered := recover(); recovered != nil {
		fmt.Fprintln(os.Stderr, "The logger of the verifier failed:", recovered)
	}
}

func findMistakes(config Config, o options) []error {
	const needsURL = "must be an http or https URL without a user and a query"
	checks := []struct {
		isValid     bool
		requirement string
	}{
		{isHTTPURL(config.URL), "URL (AUTH_URL) " + needsURL},
		{idForm.MatchString(config.AppID), "AppID (AUTH_APP_ID) must be a UUID: the id of this service's key for auth"},
		{serviceNameForm.MatchString(config.ServiceName), "ServiceName (SERVICE_NAME) must be the name of this service"},
		{config.JWKSURL == "" || isHTTPURL(config.JWKSURL), "JWKSURL (AUTH_JWKS_URL) " + needsURL},
		{isSecret(config.SecretKey), "SecretKey (SECRET_KEY) must have at least 32 bytes"},
		{
			isSecret(config.SecretKeyPrevious) && (config.SecretKeyPrevious == "" || config.SecretKey != ""),
			"SecretKeyPrevious (SECRET_KEY_PREVIOUS) must have at least 32 bytes, and needs SECRET_KEY",
		},
		{
			config.OutageGrace >= 0 && config.OutageGrace <= maxOutageGrace,
			"OutageGrace (AUTH_OUTAGE_GRACE_SECONDS) must be 0 to 60 seconds: nothing is remembered for longer",
		},
		{o.maxEntries > 0, "WithMaxEntries must be positive"},
		{o.maxQuestions > 0, "WithMaxQuestions must be positive"},
		{o.logger != nil, "WithLogger must not be nil"},
	}
	var mistakes []error
	for _, check := range checks {
		if !check.isValid {
			mistakes = append(mistakes, errors.New(check.requirement))
		}
	}
	return mistakes
}

// isHTTPURL refuses a user name and a password, which would be logged, and a URL to which a path cannot be appended.
func isHTTPURL(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, "?#") {
		return false
	}
	return (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != "" && parsed.User == nil
}

func isSecret(text string) bool { return text == "" || len(text) >= minSecretBytes }
