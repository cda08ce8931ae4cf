package main

import (
	"fmt"
	"math"
	"math/rand"
	_ "unsafe" // for go:linkname

	"k8s.io/apiserver/pkg/util/shufflesharding"
)

// hands is a deck, a hand size, and the hands that are dealt for hashes. `Error` is set if there is no such dealer.
type hands struct {
	Deck, Hand int
	Bits       int    `json:",omitempty"`
	Error      string `json:",omitempty"`
	// Dealt has the hash as a text, because it exceeds the integers of other JSON decoders, and the cards.
	Dealt []dealt `json:",omitempty"`
}

type dealt struct {
	Hash  string
	Cards []int
}

// shuffleSharding records the hands of `shufflesharding.Dealer`, a row of JSON for each size of deck and hand.
func shuffleSharding() []byte {
	random := rand.New(rand.NewSource(1))
	var rows []hands
	sizes := [][2]int{
		{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {3, 4}, {1<<26 + 1, 1}, {1 << 26, 2}, {1 << 26, 3}, {128, 8}, {128, 9}, {512, 6}, {512, 7},
		{50, 10}, {50, 11}, {2, 2}, {64, 6}, {64, 8}, {64, 10}, {64, 11}, {10, 10}, {16, 15}, {16, 16}, {8, 8},
	}
	for _, deck := range []int{1, 2, 3, 4, 5, 8, 9, 16, 50, 64, 100, 128, 256, 1000, 10000} {
		for hand := 1; hand <= min(deck, 8); hand++ {
			if shufflesharding.RequiredEntropyBits(deck, hand) <= shufflesharding.MaxHashBits {
				sizes = append(sizes, [2]int{deck, hand})
			}
		}
	}
	for _, size := range sizes {
		row := hands{Deck: size[0], Hand: size[1]}
		dealer, err := shufflesharding.NewDealer(size[0], size[1])
		if err != nil {
			row.Error = err.Error()
		} else {
			row.Bits = shufflesharding.RequiredEntropyBits(size[0], size[1])
			for _, hash := range []uint64{0, 1, math.MaxUint64, random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()} {
				row.Dealt = append(row.Dealt, dealt{fmt.Sprint(hash), dealer.DealIntoHand(hash, nil)})
			}
		}
		rows = append(rows, row)
	}
	return jsonLines(rows)
}

//go:linkname hashFlowID k8s.io/apiserver/pkg/util/flowcontrol.hashFlowID
func hashFlowID(schema, distinguisher string) uint64

// flowHash is the hash of a flow, as a text.
type flowHash struct {
	Schema, Distinguisher, Hash string
}

// flowHashes records the hashes of flows, a row of JSON each.
func flowHashes() []byte {
	var rows []flowHash
	for _, flow := range [][2]string{
		{"", ""}, {"a", ""}, {"", "a"}, {"global-default", "kubernetes-admin"}, {"service-accounts", "system:serviceaccount:default:x"},
		{"catch-all", "jane"}, {"workload-leader-election", "kube-system"}, {"system-nodes", "system:node:a"}, {"a\x00b", "c"},
		{"a", "b\x00c"}, {"ä", "日本"}, {"catch-all", "system:anonymous"},
	} {
		rows = append(rows, flowHash{flow[0], flow[1], fmt.Sprint(hashFlowID(flow[0], flow[1]))})
	}
	for i := range 20 {
		schema, user := fmt.Sprintf("schema-%d", i/5), fmt.Sprintf("user-%d", i)
		rows = append(rows, flowHash{schema, user, fmt.Sprint(hashFlowID(schema, user))})
	}
	return jsonLines(rows)
}
