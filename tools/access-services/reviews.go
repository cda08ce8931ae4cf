package main

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// callerToken is the bearer token that callers of webhooks need.
const callerToken = "webhook-token"

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)

// reviews handles requests that post a review. It decodes strictly, has a function fill in the status, and returns the
// review at the version of the request. A review that the function does not know is refused.
func reviews(answer func(any) error) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") != "Bearer "+callerToken {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review, version, err := strict.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := answer(review); err != nil {
			http.Error(w, fmt.Sprintf("%v: %v", version, err), http.StatusBadRequest)
			return
		}
		encoded, err := runtime.Encode(scheme.Codecs.LegacyCodec(version.GroupVersion()), review)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(encoded)
	}
}
