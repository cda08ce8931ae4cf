// Records what apiserver's parser makes of shard selectors, one row of JSON a line.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apiserver/pkg/sharding"
)

// row is a text and the selector or the error that is made of it.
type row struct {
	Text, Selector, Error string
}

const (
	lowest  = "'0x0000000000000000'"
	middle  = "'0x8000000000000000'"
	highest = "'0x10000000000000000'"
	uid     = "object.metadata.uid"
	ns      = "object.metadata.namespace"
)

func shardRange(field, start, end string) string {
	return fmt.Sprintf("shardRange(%s, %s, %s)", field, start, end)
}

func texts() []string {
	texts := []string{
		shardRange(uid, lowest, middle),
		shardRange(ns, middle, highest),
		"  " + shardRange(uid, lowest, highest) + "\n",
		shardRange(uid, lowest, middle) + " || " + shardRange(uid, middle, highest),
		shardRange(uid, lowest, middle) + "||(" + shardRange(uid, middle, highest) + "||" + shardRange(uid, lowest, highest) + ")",
		shardRange(uid, "\"0x0000000000000000\"", "r'0xffffffffffffffff'"),
		"x." + shardRange(uid, lowest, middle),
		"." + shardRange(uid, lowest, middle),
		shardRange(uid, lowest, middle) + " || " + shardRange(ns, middle, highest),
		// Other expressions.
		" ", "a", "1", "'x'", "true", "[1]", "{}", "a.b", "a && b", "!a", "a ? b : c", "has(a.b)", "a.all(x, x)",
		"a.map(x, x)", "f()", "a[0]", "Msg{}", "-1", "a + b", "a || b", "f() || g()",
		"object.metadata.uid in ['a']",
		// Other arguments.
		"shardRange()", "shardRange(" + uid + ")", "shardRange(object.metadata.uid '0x0')",
	}
	for _, field := range []string{
		"1", "f()", "f().uid", "has(a.b)", "metadata.uid", "object.metadata.name", "object", ".object.metadata.uid",
		"object.metadata.`uid`",
	} {
		texts = append(texts, shardRange(field, lowest, middle))
	}
	for _, start := range []string{
		"0", "b'0x'", "1u", "1.5", "null", "x", "[1]", "{}", "f()", "true", "-1", "'0x' + '0'", "''",
		"'0X0000000000000000'", "'0x'", "'0x0'", "'0x000000000000000g'", "'0x000000000000000A'", "'0xé'", "'0xééééééééé'",
		"'0x000000000000000000'", "'0x00000000000000000'", "'0x\"'", middle, highest,
	} {
		texts = append(texts, shardRange(uid, start, middle))
	}
	for _, end := range []string{"1", "x.y", "'0x10000000000000001'", lowest} {
		texts = append(texts, shardRange(uid, lowest, end))
	}
	// Malformed texts.
	return append(texts, "shardRange(", ")", "a b", "shardRange(object.metadata.uid, '0x0", "a ||", "|| a", "a || || b", "@",
		"size(", "'abc", "a.", "1 1", "$", "a\x00b", "é")
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: shard-selectors FILE")
		os.Exit(2)
	}
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	for _, text := range texts() {
		recorded := row{Text: text}
		if selector, err := sharding.Parse(text); err != nil {
			recorded.Error = err.Error()
		} else {
			recorded.Selector = selector.String()
		}
		if err := encoder.Encode(recorded); err != nil {
			panic(err)
		}
	}
	if err := file.Close(); err != nil {
		panic(err)
	}
}
