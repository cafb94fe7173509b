package platformauth

import (
	"net/http"
	"testing"
)

func TestCredentialsBypassTheProxyOfTheEnvironment(t *testing.T) {
	for line, roundTripper := range newTransport(nil).lines {
		if roundTripper.(*http.Transport).Proxy != nil {
			t.Errorf("line %d looks for a proxy", line)
		}
	}
}
