// Records and compares what apiserver's encryption at rest does, for the tests of `crates/encryption`.
// `go run -trimpath . record ../../crates/encryption/tests/recorded` writes the recordings. `encryption read` reads stored
// values from its standard input and prints the results of reading them. `encryption serve` is a KMS plugin. Each file of
// this program describes the format of its rows.
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	random "math/rand/v2"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

func write[R any](folder, name string, rows []R) {
	file, err := os.Create(filepath.Join(folder, name))
	if err != nil {
		panic(err)
	}
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, row := range rows {
		if err := encoder.Encode(row); err != nil {
			panic(err)
		}
	}
	if err := file.Close(); err != nil {
		panic(err)
	}
}

func main() {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	switch {
	case len(os.Args) == 3 && os.Args[1] == "record":
		folder, err := filepath.Abs(os.Args[2])
		if err != nil {
			panic(err)
		}
		write(folder, "metrics.jsonl", recordMetrics())
		// Nonces are the same in each recording.
		rand.Reader = random.NewChaCha8([32]byte{})
		write(folder, "configurations.jsonl", configurations())
		write(folder, "providers.jsonl", providers)
		write(folder, "values.jsonl", values())
		write(folder, "kms_providers.jsonl", kmsPlugins)
		write(folder, "kms_values.jsonl", kmsValues())
		write(folder, "kms_statuses.jsonl", kmsStatuses())
		write(folder, "health.jsonl", healthChecks())
	case len(os.Args) == 2 && os.Args[1] == "read":
		read(os.Stdin, os.Stdout)
	case len(os.Args) == 4 && os.Args[1] == "serve":
		serve(os.Args[2], os.Args[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: encryption record FOLDER | encryption read | encryption serve SOCKET KEY")
		os.Exit(2)
	}
}
