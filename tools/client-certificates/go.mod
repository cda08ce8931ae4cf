module pintle.dev/tools/client-certificates

go 1.26.0
