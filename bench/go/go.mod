module platform-auth.example/bench

go 1.24.0

require platform-auth.example/clients/go v0.1.0

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	golang.org/x/sync v0.17.0 // indirect
)

replace platform-auth.example/clients/go => ../../clients/go
