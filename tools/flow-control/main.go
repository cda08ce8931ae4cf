// Records what apiserver's API Priority and Fairness packages answer, for the tests of `crates/flow-control`:
// `go run . ../../crates/flow-control/tests/recorded`. Each file of this program describes the format of its recordings.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/blang/semver/v4"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/klog/v2"
)

// recording is a file and the function that makes its content.
type recording struct {
	name string
	make func() []byte
}

var recordings = []recording{
	// A reset of the metrics would detach the gauges of reads and writes.
	{"metrics.jsonl", metricTexts},
	{"queue_sets.txt", queueSets},
	{"shuffle_sharding.jsonl", shuffleSharding},
	{"flow_hashes.jsonl", flowHashes},
	{"work_estimates.jsonl", workEstimates},
	{"watch_counts.jsonl", watchCounts},
	{"matching.jsonl", matching},
	{"levels.jsonl", levels},
	{"allocations.jsonl", allocations},
	{"retry_after.jsonl", retryAfter},
	{"dumps.json", dumps},
}

// jsonLines encodes one row a line.
func jsonLines[R any](rows []R) []byte {
	var lines []byte
	for _, row := range rows {
		line, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return lines
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: flow-control FOLDER [FILE...]")
		os.Exit(2)
	}
	// Upstream logs every change of a configuration.
	logs := flag.NewFlagSet("logs", flag.PanicOnError)
	klog.InitFlags(logs)
	logs.Set("logtostderr", "false")
	logs.Set("stderrthreshold", "FATAL")
	klog.SetOutput(discard{})
	// Without this version the registry keeps metrics that were removed long ago.
	for _, metric := range upstreamMetrics {
		metric.Create(&semver.Version{Major: 1, Minor: 36})
	}
	metrics.Register()

	chosen := map[string]bool{}
	for _, name := range os.Args[2:] {
		chosen[name] = true
	}
	for _, recording := range recordings {
		if len(chosen) > 0 && !chosen[recording.name] {
			continue
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], recording.name), recording.make(), 0o644); err != nil {
			panic(err)
		}
	}
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }
