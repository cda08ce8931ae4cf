package main

import (
	"os"
	"time"

	"k8s.io/kms/pkg/service"
)

// serve runs the plugin at a socket until the standard input ends.
func serve(socket, key string) {
	server := service.NewGRPCService(socket, 5*time.Second, plugin{key})
	go func() {
		if err := server.ListenAndServe(); err != nil {
			panic(err)
		}
	}()
	_, _ = os.Stdin.Read(make([]byte, 1))
}
