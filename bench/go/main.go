// A service of net/http that embeds a verifier, with the variables of `platform-auth init`; PORT is where it listens.
package main

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"

	platformauth "platform-auth.example/clients/go"
)

func main() {
	auth, err := platformauth.FromEnvironment(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	recipes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"recipes":[{"id":1,"title":"Soup"}]}`)
	})
	http.Handle("GET /plain", recipes)
	http.Handle("GET /guarded", auth.RequireNode()(recipes))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
