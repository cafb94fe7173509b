module platform-auth.example/clients/go

go 1.24.0

require (
	github.com/go-jose/go-jose/v4 v4.1.9
	golang.org/x/sync v0.17.0
)
