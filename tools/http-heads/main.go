// Command http-heads records what Go's net/http answers to the heads of requests in a file of JSON lines.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// row is a line of the file.
type row struct {
	// Head is what the client sends: each character is a byte.
	Head string `json:"head"`
	// Go is the status of net/http.
	Go int `json:"go"`
	// Expect is the status of this server.
	Expect int `json:"expect"`
	// Why says why they differ.
	Why string `json:"why,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: http-heads FILE")
		os.Exit(2)
	}
	if err := record(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "http-heads:", err)
		os.Exit(1)
	}
}

func record(path string) error {
	file, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(listener)
	defer server.Close()

	var recorded bytes.Buffer
	encoder := json.NewEncoder(&recorded)
	encoder.SetEscapeHTML(false)
	for decoder := json.NewDecoder(bytes.NewReader(file)); ; {
		var row row
		if err := decoder.Decode(&row); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if row.Go, err = status(listener.Addr().String(), row.Head); err != nil {
			return fmt.Errorf("%q: %w", row.Head, err)
		}
		if err := encoder.Encode(row); err != nil {
			return err
		}
	}
	return os.WriteFile(path, recorded.Bytes(), 0o644)
}

// status sends a head and returns the status of the answer.
func status(address, head string) (int, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(10 * time.Second))
	var request []byte
	for _, character := range head {
		request = append(request, byte(character))
	}
	if _, err := connection.Write(request); err != nil {
		return 0, err
	}
	// The connection may be reset after the answer.
	answer, _ := io.ReadAll(connection)
	fields := strings.Fields(string(answer))
	if len(fields) < 2 {
		return 0, fmt.Errorf("no answer")
	}
	return strconv.Atoi(fields[1])
}
