module pintle.dev/tools/http-heads

go 1.26
