package platformauth

import (
	"crypto/subtle"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
)

var appKeyForm = regexp.MustCompile(`^pa_app_[A-Za-z0-9_-]+$`)

func isAppKey(text string) bool {
	return len(text) <= maxCredentialLength && appKeyForm.MatchString(text)
}

// An ownKey is this service's own key for the authentication service: a text, or the text of a file, such as a mounted
// Secret.
type ownKey struct {
	appID, file string

	mu  sync.Mutex
	key string
	// version counts the keys, to tell whether a refused one was replaced meanwhile.
	version int
}

func newOwnKey(config Config) (*ownKey, error) {
	if config.AppKey != "" && config.AppKeyFile != "" {
		return nil, errors.New("AppKey (AUTH_APP_KEY) and AppKeyFile (AUTH_APP_KEY_FILE) exclude each other")
	}
	key := config.AppKey
	if config.AppKeyFile != "" {
		key = readKeyFile(config.AppKeyFile)
	}
	if isAppKey(key) {
		return &ownKey{appID: config.AppID, file: config.AppKeyFile, key: key}, nil
	}
	if config.AppKeyFile != "" {
		return nil, errors.New(
			"AppKeyFile (AUTH_APP_KEY_FILE) must be a readable file with this service's key for auth: pa_app_…")
	}
	return nil, errors.New("AppKey (AUTH_APP_KEY) must be this service's key for auth: pa_app_…")
}

// current returns the key, and its version for replaceRefused.
func (k *ownKey) current() (key string, version int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.key, k.version
}

// replaceRefused reports whether there is another key than the refused one.
func (k *ownKey) replaceRefused(version int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version != version {
		return true
	}
	if k.file == "" {
		return false
	}
	found := readKeyFile(k.file)
	if found == "" || subtle.ConstantTimeCompare([]byte(found), []byte(k.key)) == 1 {
		return false
	}
	k.key = found
	k.version++
	return true
}

// readKeyFile returns nothing when the file cannot be read, or holds anything but a key and a line break.
func readKeyFile(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	key := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if !isAppKey(key) {
		return ""
	}
	return key
}
