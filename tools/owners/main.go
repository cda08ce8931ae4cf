// Records what upstream's own field manager does, for the tests of apply: what it makes of objects that several write to at
// random, with the same requests in every run, and which fields of the sample of every kind someone owns who applies it.
//
//	go run . ../../crates/testkit/tests
package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
)

// recording is a file of objects.
type recording struct {
	name string
	kind *kind
	// body makes a request's body.
	body func(*rand.Rand, string) object
	// through are the subresources that requests go through; an empty name is the object itself.
	through []string
	// first is applied before anything else, and is part of every replacement.
	first object
	// appliers are the managers that apply.
	appliers []string
	// sends says that updates may bring entries of their own.
	sends   bool
	seed    int64
	objects int
}

// length is how many requests there are for an object, at most.
const length = 14

func recordings() []recording {
	three := []string{"one", "two", "three"}
	self := []string{""}
	maps := newKind("v1", "ConfigMap", "n", resets{"": nil})
	accounts := newKind("v1", "ServiceAccount", "n", resets{"": nil})
	nodes := newKind("v1", "Node", "", resets{"": {"status"}, "status": {"spec"}})
	deployments := newKind("apps/v1", "Deployment", "n",
		resets{"": {"status"}, "status": {"spec", "metadata.labels"}, "scale": nil})
	return []recording{
		{"configmaps", maps, configMap, self, nil, three, true, 100, 16},
		{"serviceaccounts", accounts, account, self, nil, three, true, 100, 16},
		{"nodes", nodes, node, []string{"", "status"}, nil, three, true, 100, 16},
		{"upgrades", maps, upgraded, self, nil, append(three, "kubectl", "kubectl", "kubectl"), true, 200, 20},
		{"deployments", deployments, deployment, []string{"", "", "status", "scale", "scale"}, template, three, false, 300, 14},
		{"templates", deployments, podTemplate, self, template, three, false, 400, 10},
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: owners FOLDER")
		os.Exit(2)
	}
	for _, recording := range recordings() {
		var text strings.Builder
		for i := range recording.objects {
			seed := recording.seed + int64(i)
			lines := recording.kind.play(recording.requests(rand.New(rand.NewSource(seed))))
			fmt.Fprintf(&text, "## %d\n%s\n\n", seed, strings.Join(lines, "\n"))
		}
		keep(filepath.Join(os.Args[1], "apply/recorded", recording.name+".txt"), text.String())
	}
	every := filepath.Join(os.Args[1], "every_kind")
	keep(filepath.Join(every, "owned.txt"), owned(filepath.Join(every, "samples")))
}

func keep(path, text string) {
	must(os.WriteFile(path, []byte(text), 0o644))
}
