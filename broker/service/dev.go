package service

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/wire"
)

const (
	tokenTTL = 24 * time.Hour
	// developmentName is the common name of transport's development certificates.
	developmentName = "felix development"
)

// Dev is a directory with the credentials of a development broker.
type Dev struct {
	Dir    string     // absolute
	Stream wire.Scope // what Command measures
}

// newDev makes credentials for every tenant of the registered streams and caches, writes
// them to dir, which it creates, and hands them to the broker. What an earlier --dev left
// there is replaced; anybody else's certificate or key is not.
//
// cert.pem and jwks.json are public; key.pem and token are readable by the owner only. The
// token is the first stream's tenant's; those of other tenants are token-TENANT.
func newDev(dir string, o *Options) (*Dev, error) {
	var scopes []wire.Scope
	for _, text := range append(append([]string{}, o.Broker.Streams...), o.Broker.Caches...) {
		s, err := wire.ParseScope(text)
		if err != nil {
			return nil, err
		}
		scopes = append(scopes, s)
	}
	dir, err := filepath.Abs(dir) // the printed command works from anywhere
	if err != nil {
		return nil, devError(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, devError(err)
	}
	if err := checkOwn(dir); err != nil {
		return nil, err
	}
	now := time.Now()
	creds, err := NewDevCredentials(now, tokenTTL, scopes...)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := transport.DevelopmentCertificate(now)
	if err != nil {
		return nil, err
	}
	first := scopes[0].Tenant
	type file struct {
		name string
		mode fs.FileMode
		data []byte
	}
	files := []file{
		{"key.pem", 0o600, keyPEM},
		{"cert.pem", 0o644, certPEM},
		{"jwks.json", 0o644, append(creds.JWKS[first], '\n')},
	}
	for tenant, token := range creds.Tokens {
		name := "token"
		if tenant != first {
			name = "token-" + tenant
		}
		files = append(files, file{name, 0o600, []byte(token + "\n")})
	}
	for _, f := range files {
		if err := replace(filepath.Join(dir, f.name), f.data, f.mode); err != nil {
			return nil, devError(err)
		}
	}
	o.CertPEM, o.KeyPEM, o.JWKS = certPEM, keyPEM, creds.JWKS
	return &Dev{Dir: dir, Stream: scopes[0]}, nil
}

// checkOwn refuses a directory whose cert.pem or key.pem --dev did not make: its key could
// not be brought back.
func checkOwn(dir string) error {
	refuse := func(name string) error {
		return &settings.Error{What: fmt.Sprintf("--dev: %s was not made by --dev and is not overwritten", filepath.Join(dir, name)),
			Hint: "name another directory; it is created if it does not exist"}
	}
	data, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(filepath.Join(dir, "key.pem")); err == nil {
			return refuse("key.pem")
		}
		return nil
	case err != nil:
		return devError(err)
	}
	if block, _ := pem.Decode(data); block != nil {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && cert.Subject.CommonName == developmentName {
			return nil
		}
	}
	return refuse("cert.pem")
}

// replace writes a file with its mode from the first byte on, and no half of it.
func replace(name string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already if all went well
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func devError(err error) error {
	return &settings.Error{What: fmt.Sprintf("--dev: %v", err), Hint: "name a directory that can be created and written to"}
}

// Command is the latencydemo command line that measures the broker, words quoted for a shell.
func (d *Dev) Command(r Ready) string {
	words := []string{"latencydemo", "--topology", "external", "--broker", reachable(r.Addr),
		"--tenant", d.Stream.Tenant, "--namespace", d.Stream.Namespace, "--stream", d.Stream.Stream,
		"--token", filepath.Join(d.Dir, "token"), "--tls-ca", filepath.Join(d.Dir, "cert.pem"), "--broker-admin", r.AdminURL}
	for i := range words {
		words[i] = quote(words[i])
	}
	return strings.Join(words, " ")
}

// reachable turns "every interface" into an address that can be dialled.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
}

// quote makes one word of it for a POSIX shell.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
