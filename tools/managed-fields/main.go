// Records the results of upstream's field manager, for the tests of server-side apply: managed fields after random
// writes of several managers, with the same requests in every run, and the fields of the sample of every kind that an
// apply owns.
//
//	go run . ../../crates/integration/tests/objects
package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
)

// recording describes a file of recorded objects.
type recording struct {
	name string
	kind *kind
	// body generates the body of a request for a subresource.
	body func(*rand.Rand, string) object
	// subresources are the subresources to send requests to; an empty name is the object itself.
	subresources []string
	// base is applied first, and is part of every replacement.
	base object
	// managers are the field managers that apply.
	managers []string
	// sendsManagedFields says that updates may contain managedFields.
	sendsManagedFields bool
	seed               int64
	objects            int
}

// maxRequests is the maximum number of requests for an object.
const maxRequests = 14

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
		{"upgrades", maps, configMapWithLastApplied, self, nil, append(three, "kubectl", "kubectl", "kubectl"), true, 200, 20},
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
			lines := recording.kind.replay(recording.requests(rand.New(rand.NewSource(seed))))
			fmt.Fprintf(&text, "## %d\n%s\n\n", seed, strings.Join(lines, "\n"))
		}
		writeFile(filepath.Join(os.Args[1], "apply/recorded", recording.name+".txt"), text.String())
	}
	every := filepath.Join(os.Args[1], "every_kind")
	writeFile(filepath.Join(every, "owned.txt"), ownedFields(filepath.Join(every, "samples")))
}

func writeFile(path, text string) {
	must(os.WriteFile(path, []byte(text), 0o644))
}
