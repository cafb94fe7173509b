//go:build go1.25

package platformauth

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
)

// What the steps of a world present.

const (
	homeOfWorlds  = "01985f4e-7c3a-7b52-9d1e-000000000d01"
	userOfWorlds  = "user-1"
	roleOfUser    = "the role of the user"
	placeOfUser   = "the place of the user"
	scopeOfCaller = "the scope of the caller"
)

// The credentials of the model, in its order.
var credentialsOfWorlds = []string{"node-1", "node-2", "session-1", "session-2", "node-3"}

// A passedToken is a user's token, with the chain of a delegated one.
type passedToken struct {
	session string
	chain   []Link
}

var delegatedOfWorlds = []passedToken{
	{"session-1", []Link{{"meals", "pair-2"}, {"web", "pair-1"}}},
	{"session-2", []Link{{"meals", "pair-2"}, {"web", "pair-3"}}},
}

// ownLinkOfWorlds is the link that an exchange adds.
var ownLinkOfWorlds = Link{"recipes", "pair-4"}

func (p passedToken) rights() []string {
	rights := []string{p.session}
	for _, link := range p.chain {
		rights = append(rights, link.AppID)
	}
	return rights
}

func (p passedToken) text() string {
	header, payload := fields{"alg": "HS256"}, fields{"sub": userOfWorlds, "sid": p.session}
	if p.chain != nil {
		header, payload["act"] = fields{"alg": "ES256", "typ": delegatedType}, p.act()
	}
	encode := func(part fields) string {
		text, _ := json.Marshal(part)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	return encode(header) + "." + encode(payload) + ".x"
}

func (p passedToken) act() (act fields) {
	for _, link := range slices.Backward(p.chain) {
		outer := fields{"sub": link.Service, "client_id": link.AppID}
		if act != nil {
			outer["act"] = act
		}
		act = outer
	}
	return act
}

func (p passedToken) headers() http.Header {
	return http.Header{tokenHeader: {"Bearer " + p.text()}}
}
