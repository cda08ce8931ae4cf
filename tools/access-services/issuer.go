package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// keyPairs has the pairs of an issuer by their name, see keyName.
type keyPairs map[string]jose.JSONWebKey

// keyName returns the name of the key pair that signs with an algorithm. All algorithms of RSA share one.
func keyName(algorithm jose.SignatureAlgorithm) string {
	if name := string(algorithm); !strings.HasPrefix(name, "RS") && !strings.HasPrefix(name, "PS") {
		return name
	}
	return "RSA"
}

// issuer is an OpenID provider that signs whatever claims it is asked to sign.
type issuer struct {
	url string

	lock sync.Mutex
	// keys sign new tokens.
	keys keyPairs
	// published has the public keys that others get.
	published jose.JSONWebKeySet
}

func newIssuer(url string) (*issuer, error) {
	issuer := &issuer{url: url}
	return issuer, issuer.rotate(false)
}

// register adds the handlers of the issuer, whose URL ends with a path.
func (i *issuer) register(handlers *http.ServeMux, path string) {
	handlers.HandleFunc("GET "+path+"/.well-known/openid-configuration", i.handleDiscovery)
	handlers.HandleFunc("GET "+path+"/keys", i.handleKeys)
	handlers.HandleFunc("POST "+path+"/token", i.handleToken)
	handlers.HandleFunc("POST "+path+"/rotate", i.handleRotate)
}

// rotate replaces the keys. The previous keys stay published if keep is true.
func (i *issuer) rotate(keep bool) error {
	keys, err := newKeyPairs()
	if err != nil {
		return err
	}
	i.lock.Lock()
	defer i.lock.Unlock()
	i.keys = keys
	if !keep {
		i.published.Keys = nil
	}
	for _, key := range keys {
		i.published.Keys = append(i.published.Keys, key.Public())
	}
	return nil
}

func newKeyPairs() (keyPairs, error) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	pairs := keyPairs{"RSA": {Key: rsaKey}}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			return nil, err
		}
		pairs[name] = jose.JSONWebKey{Key: key}
	}
	for name, pair := range pairs {
		thumbprint, err := pair.Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, err
		}
		pair.KeyID = name + "-" + base64.RawURLEncoding.EncodeToString(thumbprint)
		pair.Use = "sig"
		pairs[name] = pair
	}
	return pairs, nil
}

func (i *issuer) handleDiscovery(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"issuer":                                i.url,
		"jwks_uri":                              i.url + "/keys",
		"response_types_supported":              []string{"id_token"},
		"subject_types_supported":               []string{"public"},
		"id_token_signing_alg_values_supported": []jose.SignatureAlgorithm{jose.RS256, jose.ES256},
	})
}

func (i *issuer) handleKeys(w http.ResponseWriter, _ *http.Request) {
	i.lock.Lock()
	defer i.lock.Unlock()
	writeJSON(w, i.published)
}

// handleToken signs a token. Its claims are those of the request, and iss, iat and exp.
func (i *issuer) handleToken(w http.ResponseWriter, request *http.Request) {
	var wanted struct {
		Algorithm jose.SignatureAlgorithm `json:"algorithm"`
		Claims    map[string]any          `json:"claims"`
		ExpiresIn int64                   `json:"expiresInSeconds"`
	}
	if err := json.NewDecoder(request.Body).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	now := time.Now()
	claims := jwt.Claims{
		Issuer:   i.url,
		IssuedAt: jwt.NewNumericDate(now),
		Expiry:   jwt.NewNumericDate(now.Add(time.Duration(wanted.ExpiresIn) * time.Second)),
	}
	token, err := i.sign(wanted.Algorithm, claims, wanted.Claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprint(w, token)
}

// sign returns a token with claims, of which later ones replace earlier ones.
func (i *issuer) sign(algorithm jose.SignatureAlgorithm, claims ...any) (string, error) {
	i.lock.Lock()
	key := i.keys[keyName(algorithm)]
	i.lock.Unlock()
	options := (&jose.SignerOptions{}).WithType("JWT")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		return "", err
	}
	builder := jwt.Signed(signer)
	for _, part := range claims {
		builder = builder.Claims(part)
	}
	return builder.Serialize()
}

// handleRotate replaces the keys. The query says whether the previous ones stay published.
func (i *issuer) handleRotate(w http.ResponseWriter, request *http.Request) {
	if err := i.rotate(request.URL.Query().Get("keep") == "true"); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
