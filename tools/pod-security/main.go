// Records what upstream's library for the Pod Security Standards decides, for the tests of the admission plugin
// PodSecurity: the violations of pods at every level and version, the answers to requests, and the configurations that
// it accepts.
//
//	go run . ../../crates/admission/tests/pod_security
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: pod-security FOLDER"))
	}
	klog.SetLogger(logr.Discard())
	write("pods.json", recordPods())
	write("requests.json", recordRequests())
	write("configurations.json", recordConfigurations())
}

// write writes a file. The items of an array, and of the arrays of an object, have a line each.
func write(name string, value any) {
	var out bytes.Buffer
	switch value := value.(type) {
	case []any:
		writeList(&out, value)
	case table:
		out.WriteString("{")
		for i, part := range value {
			if i > 0 {
				out.WriteString(",")
			}
			fmt.Fprintf(&out, "\n%s: ", encode(part.name))
			writeList(&out, part.rows)
		}
		out.WriteString("\n}")
	}
	out.WriteString("\n")
	check(os.WriteFile(filepath.Join(os.Args[1], name), out.Bytes(), 0o644))
}

// table is an object of lists.
type table []struct {
	name string
	rows []any
}

func writeList(out *bytes.Buffer, list []any) {
	out.WriteString("[")
	for i, item := range list {
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString("\n")
		out.Write(encode(item))
	}
	out.WriteString("\n]")
}

func encode(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	check(encoder.Encode(value))
	return bytes.TrimSpace(out.Bytes())
}

func check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
