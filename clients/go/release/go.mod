module platform-auth.example/clients/go/release

go 1.24.0

require golang.org/x/mod v0.23.0
