package platformauth

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

const (
	appPath  = "/internal/validate-app"
	nodePath = "/internal/validate-node"
	userPath = "/internal/validate-user"
)

// A question is one to the service about one credential.
type question struct {
	credential credential
	network    string
	// path is the cause in a configuration error.
	path    string
	request request
	// token is to be checked before the service is asked, at the door of users.
	token *parsedToken
	// refusesDelegated: it is about a delegated token at a route that does not accept one. The local check decides, if it
	// can.
	refusesDelegated bool
	// read returns nil when the answer is about another credential.
	read func(fields) principal
	// changes evict the answer.
	changes []change
}

// newQuestion refuses what the service could not accept.
func (v *Verifier) newQuestion(ctx context.Context, headers Headers, c credential, d demands) (*question, error) {
	if !c.isWellFormed() {
		return nil, newRefusal(refusedAtDoor[c.door])
	}
	id := strings.ToLower(c.id)
	sent := readTracing(headers)
	c.addTo(sent)
	sent["Cache-Control"] = "no-cache"
	address, _ := ctx.Value(remoteAddrKey{}).(string)
	asked := &question{credential: c, network: toNetwork(address)}
	asked.request = request{method: http.MethodPost, headers: sent}
	switch c.door {
	case DoorApp:
		asked.path = appPath
		body, _ := json.Marshal(map[string]string{"target": v.settings.serviceName})
		asked.request.body = string(body)
		sent["Content-Type"] = "application/json"
		asked.read = func(body fields) principal { return toApp(body, id, v.settings.serviceName) }
	case DoorNode:
		asked.path = nodePath
		// The service accepts a node with targets only at these, so the question names this service.
		sent["X-Platform-Target"] = v.settings.serviceName
		asked.request.presentsOwnKey = true
		asked.read = func(body fields) principal { return toNode(body, id) }
	case DoorUser:
		token, ok := parseToken(c.secret)
		if !ok {
			return nil, newRefusal(refusedAtDoor[DoorUser])
		}
		asked.path = userPath
		asked.token = &token
		asked.refusesDelegated = token.chain != nil && d.delegated == refuseDelegated
		if token.chain != nil && d.delegated != refuseDelegated {
			// Only this header lets the service accept a delegated token.
			sent["X-Platform-Target"] = v.settings.serviceName
		}
		asked.request.presentsOwnKey = true
		asked.read = func(body fields) principal { return toUser(body, token.claims) }
	}
	asked.request.url = v.settings.url + asked.path
	asked.changes = listChanges(c, asked.token)
	return asked, nil
}

// listChanges returns the changes that may end the credential.
func listChanges(c credential, token *parsedToken) []change {
	if token == nil {
		return []change{{kind: string(c.door), id: strings.ToLower(c.id)}}
	}
	return token.changes()
}

func (t parsedToken) changes() []change {
	changes := []change{{kind: "session", id: t.sessionID}, {kind: "user", id: t.userID}}
	for _, link := range t.chain {
		changes = append(changes, change{kind: "app", id: link.AppID})
	}
	return changes
}
