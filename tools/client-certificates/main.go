// Records what crypto/x509 says of the chains of client certificates, with the options of kube-apiserver
// (x509.DefaultVerifyOptions of k8s.io/apiserver): crates/x509/tests/chains.json. The signatures of handshakes are those of
// crypto/tls. Run it as `go run . ../../crates/x509/tests`.
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The time of all verifications, and the default validity.
var (
	now   = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	begin = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2120, 1, 1, 0, 0, 0, 0, time.UTC)
)

// An entity with a key and its certificate.
type entity struct {
	key  crypto.Signer
	cert *x509.Certificate
}

// A row of the table.
type row struct {
	Name string `json:"name"`
	// Indices of certificates.
	Leaf          int   `json:"leaf"`
	Intermediates []int `json:"intermediates"`
	Roots         []int `json:"roots"`
	// Seconds and nanoseconds since 1970.
	Time [2]int64 `json:"time"`
	// The error; empty if the certificate is valid.
	Answer string `json:"answer"`
}

// The table.
type table struct {
	Certificates [][]byte `json:"certificates"`
	Rows         []row    `json:"rows"`
}

// A signature of a message as a client makes it in a handshake.
type signature struct {
	Name      string `json:"name"`
	Key       []byte `json:"key"`
	Message   []byte `json:"message"`
	Signature []byte `json:"signature"`
}

var (
	chains table
	serial int64
)

// The index of a certificate in the table.
func index(e *entity) int {
	for i, known := range chains.Certificates {
		if bytes.Equal(known, e.cert.Raw) {
			return i
		}
	}
	chains.Certificates = append(chains.Certificates, e.cert.Raw)
	return len(chains.Certificates) - 1
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func p256() crypto.Signer { return curve(elliptic.P256()) }

func curve(c elliptic.Curve) crypto.Signer { return must(ecdsa.GenerateKey(c, rand.Reader)) }

func rsaKey(bits int) crypto.Signer { return must(rsa.GenerateKey(rand.Reader, bits)) }

func edKey() crypto.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return must(key, err)
}

// Signs a certificate. Without an issuer it signs itself.
func sign(issuer *entity, key crypto.Signer, name string, change func(*x509.Certificate)) *entity {
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    begin,
		NotAfter:     end,
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))
	return &entity{key, must(x509.ParseCertificate(der))}
}

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid = true, true
	c.KeyUsage = x509.KeyUsageCertSign
}

func client(c *x509.Certificate) {
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// Applies several changes.
func with(changes ...func(*x509.Certificate)) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, change := range changes {
			change(c)
		}
	}
}

func extension(oid asn1.ObjectIdentifier, critical bool, value []byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oid, Critical: critical, Value: value})
	}
}

func check(name string, leaf *entity, roots []*entity, intermediates ...*entity) {
	checkAt(name, now, leaf, roots, intermediates...)
}

func checkAt(name string, at time.Time, leaf *entity, roots []*entity, intermediates ...*entity) {
	r := row{Name: name, Leaf: index(leaf), Intermediates: []int{}, Roots: []int{}, Time: [2]int64{at.Unix(), int64(at.Nanosecond())}}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, root := range roots {
		options.Roots.AddCert(root.cert)
		r.Roots = append(r.Roots, index(root))
	}
	if len(intermediates) > 0 {
		options.Intermediates = x509.NewCertPool()
	}
	for _, intermediate := range intermediates {
		options.Intermediates.AddCert(intermediate.cert)
		r.Intermediates = append(r.Intermediates, index(intermediate))
	}
	if _, err := leaf.cert.Verify(options); err != nil {
		r.Answer = err.Error()
	}
	chains.Rows = append(chains.Rows, r)
}

func main() {
	root := sign(nil, p256(), "root", authority)
	trusted := []*entity{root}
	keys := []struct {
		name string
		new  func() crypto.Signer
	}{
		{"RSA 1024", func() crypto.Signer { return rsaKey(1024) }},
		{"RSA 2048", func() crypto.Signer { return rsaKey(2048) }},
		{"RSA 4096", func() crypto.Signer { return rsaKey(4096) }},
		{"P-224", func() crypto.Signer { return curve(elliptic.P224()) }},
		{"P-256", p256},
		{"P-384", func() crypto.Signer { return curve(elliptic.P384()) }},
		{"P-521", func() crypto.Signer { return curve(elliptic.P521()) }},
		{"Ed25519", edKey},
	}
	for _, key := range keys {
		check(key.name+" of the client", sign(root, key.new(), "jane", client), trusted)
		ca := sign(nil, key.new(), "ca", authority)
		check(key.name+" of the authority", sign(ca, p256(), "jane", client), []*entity{ca})
		other := sign(nil, key.new(), "ca", authority)
		check(key.name+" of another authority with the name", sign(ca, p256(), "jane", client), []*entity{other})
	}
	algorithms(trusted)
	usages(root)
	authorities(root)
	validity(root)
	names(root)
	extensions(root)
	paths(root)
	write("chains.json", chains)
	write("signatures.json", signatures())
	credentials()
}

// Signatures with other algorithms than those that go with the keys.
func algorithms(_ []*entity) {
	rsaRoot := rsaKey(2048)
	small := rsaKey(1024)
	elliptics := map[string]crypto.Signer{"P-256": p256(), "P-384": curve(elliptic.P384()), "P-521": curve(elliptic.P521())}
	for _, algorithm := range []x509.SignatureAlgorithm{
		x509.SHA1WithRSA, x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA,
		x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	} {
		for name, key := range map[string]crypto.Signer{"2048": rsaRoot, "1024": small} {
			if name == "1024" && algorithm == x509.SHA512WithRSAPSS {
				// The key is too short for it.
				continue
			}
			if algorithm == x509.SHA1WithRSA {
				sha1Row("SHA-1 with RSA "+name, key)
				continue
			}
			ca := sign(nil, key, "ca", authority)
			leaf := sign(ca, p256(), "jane", with(client, func(c *x509.Certificate) { c.SignatureAlgorithm = algorithm }))
			check(algorithm.String()+" "+name, leaf, []*entity{ca})
		}
	}
	for _, name := range []string{"P-256", "P-384", "P-521"} {
		for _, algorithm := range []x509.SignatureAlgorithm{x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512} {
			ca := sign(nil, elliptics[name], "ca", authority)
			leaf := sign(ca, p256(), "jane", with(client, func(c *x509.Certificate) { c.SignatureAlgorithm = algorithm }))
			check(algorithm.String()+" "+name, leaf, []*entity{ca})
		}
		sha1Row("SHA-1 with "+name, elliptics[name])
	}
}

// crypto/x509 signs nothing with SHA-1, so the algorithm and the signature of a certificate are replaced.
func sha1Row(name string, key crypto.Signer) {
	ca := sign(nil, key, "ca", authority)
	leaf := sign(ca, p256(), "jane", client)
	var parsed struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	must(asn1.Unmarshal(leaf.cert.Raw, &parsed))
	oid, parameters := asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}, asn1.RawValue{}
	if _, ok := key.(*rsa.PrivateKey); ok {
		oid, parameters = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 5}, asn1.NullRawValue
	}
	var tbs struct {
		Version   int `asn1:"explicit,tag:0"`
		Serial    *big.Int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    asn1.RawValue
		Validity  asn1.RawValue
		Subject   asn1.RawValue
		Key       asn1.RawValue
		Rest      asn1.RawValue `asn1:"explicit,tag:3"`
	}
	must(asn1.Unmarshal(parsed.TBS.FullBytes, &tbs))
	tbs.Algorithm = pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: parameters}
	signed := must(asn1.Marshal(tbs))
	digest := crypto.SHA1.New()
	digest.Write(signed)
	parsed.TBS = asn1.RawValue{FullBytes: signed}
	parsed.Algorithm = tbs.Algorithm
	signature := must(key.Sign(rand.Reader, digest.Sum(nil), crypto.SHA1))
	parsed.Signature = asn1.BitString{Bytes: signature, BitLength: len(signature) * 8}
	der := must(asn1.Marshal(parsed))
	check(name, &entity{nil, must(x509.ParseCertificate(der))}, []*entity{ca})
}

func usages(root *entity) {
	set := func(usages ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
	}
	unknown := func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3, 4}} }
	trusted := []*entity{root}
	for _, usage := range []struct {
		name   string
		change func(*x509.Certificate)
	}{
		{"no usage", func(*x509.Certificate) {}},
		{"any usage", set(x509.ExtKeyUsageAny)},
		{"server only", set(x509.ExtKeyUsageServerAuth)},
		{"client", set(x509.ExtKeyUsageClientAuth)},
		{"server and client", set(x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)},
		{"server and any", set(x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny)},
		{"unknown usage", unknown},
		{"unknown usage and client", with(set(x509.ExtKeyUsageClientAuth), unknown)},
		{"OCSP signing", set(x509.ExtKeyUsageOCSPSigning)},
	} {
		check("leaf: "+usage.name, sign(root, p256(), "jane", usage.change), trusted)
		middle := sign(root, p256(), "middle", with(authority, usage.change))
		check("intermediate: "+usage.name, sign(middle, p256(), "jane", client), trusted, middle)
		ca := sign(nil, p256(), "ca", with(authority, usage.change))
		check("authority: "+usage.name, sign(ca, p256(), "jane", client), []*entity{ca})
	}
	check("leaf: key usage without signatures", sign(root, p256(), "jane", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), trusted)
	middle := sign(root, p256(), "middle", with(authority, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }))
	check("intermediate: key usage without certificates", sign(middle, p256(), "jane", client), trusted, middle)
	middle = sign(root, p256(), "middle", with(authority, func(c *x509.Certificate) { c.KeyUsage = 0 }))
	check("intermediate: no key usage", sign(middle, p256(), "jane", client), trusted, middle)
}

func authorities(root *entity) {
	trusted := []*entity{root}
	check("leaf that is an authority", sign(root, p256(), "jane", with(client, authority)), trusted)
	check("leaf that is said to be no authority", sign(root, p256(), "jane", with(client, func(c *x509.Certificate) { c.BasicConstraintsValid = true })), trusted)
	alone := sign(nil, p256(), "jane", client)
	check("leaf that is trusted", alone, []*entity{alone})
	check("leaf that has signed itself", alone, trusted)
	check("authority as client", root, trusted)
	server := sign(nil, p256(), "jane", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	check("leaf of a server that is trusted", server, []*entity{server})
	parent := sign(root, p256(), "parent", client)
	check("issuer that is no authority", sign(parent, p256(), "jane", client), trusted, parent)
	check("trusted issuer that is no authority", sign(parent, p256(), "jane", client), []*entity{parent})
	check("no authority is trusted", sign(root, p256(), "jane", client), nil)
	for _, length := range []int{0, 1, 2} {
		limit := func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = length, length == 0 }
		ca := sign(nil, p256(), "ca", with(authority, limit))
		chain := []*entity{}
		issuer := ca
		for depth := range 4 {
			leaf := sign(issuer, p256(), "jane", client)
			check("path length "+string(rune('0'+length))+", intermediates "+string(rune('0'+depth)), leaf, []*entity{ca}, chain...)
			issuer = sign(issuer, p256(), "middle"+string(rune('0'+depth)), authority)
			chain = append(chain, issuer)
		}
	}
	zero := sign(root, p256(), "zero", with(authority, func(c *x509.Certificate) { c.MaxPathLenZero = true }))
	below := sign(zero, p256(), "below", authority)
	check("path length of an intermediate", sign(below, p256(), "jane", client), trusted, below, zero)
}

func validity(root *entity) {
	trusted := []*entity{root}
	until := func(from, to time.Time) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, to }
	}
	hour := time.Hour
	for _, period := range []struct {
		name     string
		from, to time.Time
	}{
		{"expired", begin, now.Add(-hour)},
		{"not yet valid", now.Add(hour), end},
		{"the first second", now, end},
		{"the last second", begin, now},
	} {
		check("leaf: "+period.name, sign(root, p256(), "jane", with(client, until(period.from, period.to))), trusted)
		middle := sign(root, p256(), "middle", with(authority, until(period.from, period.to)))
		check("intermediate: "+period.name, sign(middle, p256(), "jane", client), trusted, middle)
		ca := sign(nil, p256(), "ca", with(authority, until(period.from, period.to)))
		check("authority: "+period.name, sign(ca, p256(), "jane", client), []*entity{ca})
	}
	leaf := sign(root, p256(), "jane", with(client, until(now, now.Add(hour))))
	checkAt("a nanosecond before the begin", now.Add(-time.Nanosecond), leaf, trusted)
	checkAt("the end", now.Add(hour), leaf, trusted)
	checkAt("a nanosecond after the end", now.Add(hour+time.Nanosecond), leaf, trusted)
	key := p256()
	old := sign(nil, key, "ca", with(authority, until(begin, now.Add(-hour))))
	renewed := sign(nil, key, "ca", authority)
	check("authority: renewed, and the expired one", sign(old, p256(), "jane", client), []*entity{old, renewed})
}

func names(root *entity) {
	trusted := []*entity{root}
	network := func(text string) *net.IPNet {
		_, parsed, err := net.ParseCIDR(text)
		return must(parsed, err)
	}
	constraints := map[string]func(*x509.Certificate){
		"permitted DNS":       func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} },
		"permitted DNS below": func(c *x509.Certificate) { c.PermittedDNSDomains = []string{".example.com"} },
		"excluded DNS":        func(c *x509.Certificate) { c.ExcludedDNSDomains = []string{"a.example.com"} },
		"permitted IP":        func(c *x509.Certificate) { c.PermittedIPRanges = []*net.IPNet{network("10.0.0.0/8")} },
		"excluded IP": func(c *x509.Certificate) {
			c.ExcludedIPRanges = []*net.IPNet{network("10.1.0.0/16"), network("fd00::/8")}
		},
		"permitted mail": func(c *x509.Certificate) { c.PermittedEmailAddresses = []string{"example.com", "jane@other.com"} },
		"excluded mail":  func(c *x509.Certificate) { c.ExcludedEmailAddresses = []string{"jane@example.com"} },
		"permitted URI":  func(c *x509.Certificate) { c.PermittedURIDomains = []string{"example.com"} },
		"excluded URI":   func(c *x509.Certificate) { c.ExcludedURIDomains = []string{".example.com"} },
	}
	uri := func(text string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.URIs = []*url.URL{must(url.Parse(text))} }
	}
	leaves := map[string]func(*x509.Certificate){
		"no name":           func(*x509.Certificate) {},
		"DNS example.com":   func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} },
		"DNS a.example.com": func(c *x509.Certificate) { c.DNSNames = []string{"A.Example.com"} },
		"DNS *.example.com": func(c *x509.Certificate) { c.DNSNames = []string{"*.example.com"} },
		"DNS other.com":     func(c *x509.Certificate) { c.DNSNames = []string{"example.com", "other.com"} },
		"IP 10.0.0.1":       func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} },
		"IP 10.1.0.1":       func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 1, 0, 1)} },
		"IP fd00::1":        func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("fd00::1")} },
		"mail example.com":  func(c *x509.Certificate) { c.EmailAddresses = []string{"jane@Example.com"} },
		"mail other.com":    func(c *x509.Certificate) { c.EmailAddresses = []string{"jane@other.com"} },
		"mail joe":          func(c *x509.Certificate) { c.EmailAddresses = []string{"joe@other.com"} },
		"URI example.com":   uri("https://example.com:8443/a"),
		"URI a.example.com": uri("spiffe://a.example.com/ns/default"),
		"URI other.com":     uri("https://other.com"),
		"URI address":       uri("https://10.0.0.1/"),
		"URI without host":  uri("urn:a:b"),
	}
	// All intermediates have the same key, so that each leaf is below all of them.
	key := p256()
	issuer := sign(root, key, "middle", authority)
	signed := map[string]*entity{}
	for name, change := range leaves {
		signed[name] = sign(issuer, p256(), "jane", with(client, change))
	}
	for _, constraint := range slices.Sorted(maps.Keys(constraints)) {
		middle := sign(root, key, "middle", with(authority, constraints[constraint]))
		for _, name := range slices.Sorted(maps.Keys(signed)) {
			check("names: "+constraint+", "+name, signed[name], trusted, middle)
		}
	}
	ca := sign(nil, p256(), "ca", with(authority, constraints["permitted DNS"]))
	check("names: of an authority, permitted", sign(ca, p256(), "jane", with(client, leaves["DNS a.example.com"])), []*entity{ca})
	check("names: of an authority, not permitted", sign(ca, p256(), "jane", with(client, leaves["DNS other.com"])), []*entity{ca})
	middle := sign(ca, p256(), "middle", with(authority, leaves["DNS other.com"]))
	check("names: of an intermediate, not permitted", sign(middle, p256(), "jane", client), []*entity{ca}, middle)
	directory := []byte{0x30, 0x14, 0xa0, 0x12, 0x30, 0x10, 0xa4, 0x0e, 0x30, 0x0c, 0x31, 0x0a, 0x30, 0x08, 0x06, 0x03, 0x55, 0x04, 0x03, 0x0c, 0x01, 0x61}
	for _, critical := range []bool{true, false} {
		middle := sign(root, p256(), "middle", with(authority, extension(asn1.ObjectIdentifier{2, 5, 29, 30}, critical, directory)))
		name := map[bool]string{true: "critical", false: "not critical"}[critical]
		check("names: of directories, "+name, sign(middle, p256(), "jane", client), trusted, middle)
	}
}

func extensions(root *entity) {
	trusted := []*entity{root}
	unknown := asn1.ObjectIdentifier{1, 2, 3, 4}
	for _, critical := range []bool{true, false} {
		name := map[bool]string{true: "critical", false: "not critical"}[critical]
		change := extension(unknown, critical, []byte{5, 0})
		check("leaf: unknown extension, "+name, sign(root, p256(), "jane", with(client, change)), trusted)
		middle := sign(root, p256(), "middle", with(authority, change))
		check("intermediate: unknown extension, "+name, sign(middle, p256(), "jane", client), trusted, middle)
		ca := sign(nil, p256(), "ca", with(authority, change))
		check("authority: unknown extension, "+name, sign(ca, p256(), "jane", client), []*entity{ca})
	}
	// A name of a sort that is not read: a registered identifier.
	registered := []byte{0x30, 0x05, 0x88, 0x03, 0x2a, 0x03, 0x04}
	check("leaf: unread alternative names, critical", sign(root, p256(), "jane", with(client, extension(asn1.ObjectIdentifier{2, 5, 29, 17}, true, registered))), trusted)
	check("leaf: unread alternative names", sign(root, p256(), "jane", with(client, extension(asn1.ObjectIdentifier{2, 5, 29, 17}, false, registered))), trusted)
	policies := []byte{0x30, 0x07, 0x30, 0x05, 0x06, 0x03, 0x2a, 0x03, 0x04}
	check("leaf: policies, critical", sign(root, p256(), "jane", with(client, extension(asn1.ObjectIdentifier{2, 5, 29, 32}, true, policies))), trusted)
	requires := extension(asn1.ObjectIdentifier{2, 5, 29, 36}, true, []byte{0x30, 0x03, 0x80, 0x01, 0x00})
	middle := sign(root, p256(), "middle", with(authority, requires))
	check("intermediate: requires a policy that is not there", sign(middle, p256(), "jane", client), trusted, middle)
	inhibits := extension(asn1.ObjectIdentifier{2, 5, 29, 54}, true, []byte{2, 1, 0})
	middle = sign(root, p256(), "middle", with(authority, inhibits))
	check("intermediate: inhibits any policy", sign(middle, p256(), "jane", client), trusted, middle)
}

func paths(root *entity) {
	trusted := []*entity{root}
	first := sign(root, p256(), "first", authority)
	second := sign(first, p256(), "second", authority)
	leaf := sign(second, p256(), "jane", client)
	check("intermediates in order", leaf, trusted, second, first)
	check("intermediates in another order", leaf, trusted, first, second)
	check("intermediates and the authority", leaf, trusted, first, second, root)
	check("an intermediate is missing", leaf, trusted, second)
	check("an unrelated intermediate", leaf, trusted, sign(nil, p256(), "other", authority), first, second)
	check("a trusted intermediate", leaf, []*entity{first}, second)
	check("the same intermediate twice", leaf, trusted, second, second, first)
	impostor := sign(nil, p256(), "first", authority)
	check("an intermediate of the name with another key", leaf, trusted, impostor, first, second)
	check("only an intermediate of the name with another key", leaf, trusted, impostor, second)
	check("an authority of the name with another key", sign(root, p256(), "jane", client), []*entity{sign(nil, p256(), "root", authority), root})
	other := sign(nil, p256(), "other", authority)
	key := p256()
	crossed := sign(root, key, "crossed", authority)
	check("cross-signed, with the chain that is trusted", sign(crossed, p256(), "jane", client), trusted, sign(other, key, "crossed", authority), crossed)
	loopA, loopB := p256(), p256()
	a := sign(nil, loopA, "a", authority)
	b := sign(nil, loopB, "b", authority)
	aOfB, bOfA := sign(b, loopA, "a", authority), sign(a, loopB, "b", authority)
	check("intermediates that sign each other", sign(aOfB, p256(), "jane", client), trusted, aOfB, bOfA)
	stranger, many := sign(nil, key, "second", authority), []*entity{}
	for range 110 {
		many = append(many, stranger)
	}
	check("more candidates than signatures may be checked", leaf, trusted, append(many, second, first)...)
	noName := sign(root, p256(), "", client)
	check("no common name", noName, trusted)
	forged := *leaf.cert
	raw := append([]byte{}, leaf.cert.Raw...)
	raw[len(raw)-1] ^= 1
	if parsed, err := x509.ParseCertificate(raw); err == nil {
		forged = *parsed
		check("a forged signature", &entity{nil, &forged}, trusted, second, first)
	}
}

// What clients sign in handshakes.
func signatures() []signature {
	message := []byte("handshake")
	digest256, digest384, digest512 := sha256.Sum256(message), sha512.Sum384(message), sha512.Sum512(message)
	var all []signature
	add := func(name string, key crypto.Signer, digest []byte, options crypto.SignerOpts) {
		all = append(all, signature{name, must(x509.MarshalPKIXPublicKey(key.Public())), message, must(key.Sign(rand.Reader, digest, options))})
	}
	add("ecdsa_secp256r1_sha256", p256(), digest256[:], crypto.SHA256)
	add("ecdsa_secp384r1_sha384", curve(elliptic.P384()), digest384[:], crypto.SHA384)
	add("ecdsa_secp521r1_sha512", curve(elliptic.P521()), digest512[:], crypto.SHA512)
	add("ed25519", edKey(), message, crypto.Hash(0))
	for _, bits := range []int{1024, 1536, 2048} {
		key, length := rsaKey(bits), map[int]string{1024: " 1024", 1536: " 1536", 2048: " 2048"}[bits]
		pss := func(hash crypto.Hash) *rsa.PSSOptions {
			return &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		add("rsa_pss_rsae_sha256"+length, key, digest256[:], pss(crypto.SHA256))
		add("rsa_pss_rsae_sha384"+length, key, digest384[:], pss(crypto.SHA384))
		if bits > 1024 {
			add("rsa_pss_rsae_sha512"+length, key, digest512[:], pss(crypto.SHA512))
		}
		add("rsa_pkcs1_sha256"+length, key, digest256[:], crypto.SHA256)
		add("rsa_pkcs1_sha384"+length, key, digest384[:], crypto.SHA384)
		add("rsa_pkcs1_sha512"+length, key, digest512[:], crypto.SHA512)
	}
	return all
}

// The authority, the certificates and the keys of clients that a test of the program presents.
func credentials() {
	folder := filepath.Join(os.Args[1], "clients")
	must(0, os.MkdirAll(folder, 0o755))
	save := func(name, kind string, der []byte) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		must(0, os.WriteFile(filepath.Join(folder, name), text, 0o644))
	}
	root := sign(nil, p256(), "clients", authority)
	save("ca.crt", "CERTIFICATE", root.cert.Raw)
	for name, key := range map[string]crypto.Signer{
		"p521": curve(elliptic.P521()), "p384": curve(elliptic.P384()), "p256": p256(), "ed25519": edKey(), "rsa1024": rsaKey(1024),
		"rsa2048": rsaKey(2048),
	} {
		jane := sign(root, key, name, client)
		save(name+".crt", "CERTIFICATE", jane.cert.Raw)
		save(name+".key", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
	}
}

func write(name string, value any) {
	text := must(json.MarshalIndent(value, "", " "))
	must(0, os.WriteFile(filepath.Join(os.Args[1], name), append(text, '\n'), 0o644))
}
