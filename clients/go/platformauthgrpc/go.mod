module platform-auth.example/clients/go/platformauthgrpc

go 1.24.0

require (
	google.golang.org/grpc v1.78.0
	platform-auth.example/clients/go v0.1.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	golang.org/x/net v0.47.0 // indirect
	golang.org/x/sync v0.18.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.31.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251029180050-ab9386a59fda // indirect
	google.golang.org/protobuf v1.36.10 // indirect
)

replace platform-auth.example/clients/go => ../
