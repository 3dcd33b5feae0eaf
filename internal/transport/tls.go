package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

const developmentValidity = 365 * 24 * time.Hour

// DevelopmentCertificate makes a self-signed certificate for localhost, 127.0.0.1 and ::1, valid
// from an hour before now for a year, and its key, both as PEM.
func DevelopmentCertificate(now time.Time) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make development key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, fmt.Errorf("make development certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "felix development"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(developmentValidity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		// An end-entity certificate, not an authority: other TLS libraries refuse an authority
		// as a server's certificate, and a file of it can sign nothing else.
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make development certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode development key: %w", err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	return certPEM, keyPEM, nil
}

// ServerTLS returns the configuration of a listener from a certificate chain and its key, as PEM.
func ServerTLS(certPEM, keyPEM []byte) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("server certificate: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}, nil
}

// ClientTLSOptions says whom a client trusts.
type ClientTLSOptions struct {
	// ServerName is the name that the server's certificate must carry. If empty, "localhost".
	ServerName string
	// CAPEM are the certificates that the server's chain must end in, which may be the server's
	// own. If empty, the system's roots, unless PinSHA256 is set.
	CAPEM []byte
	// PinSHA256 is the SHA-256 of the server's own certificate (DER), in hex, colons allowed. Set
	// alone, it takes the place of chain and name; the dates still count. Set together with
	// CAPEM, both must hold.
	PinSHA256 string
}

// ClientTLS returns the configuration of a dialled connection. Verification is never off: without
// authority and pin the system's roots decide.
func ClientTLS(o ClientTLSOptions) (*tls.Config, error) {
	conf := &tls.Config{ServerName: o.ServerName, MinVersion: tls.VersionTLS13}
	if conf.ServerName == "" {
		conf.ServerName = "localhost"
	}
	if len(o.CAPEM) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(o.CAPEM) {
			return nil, errors.New("trusted certificates: no certificate in PEM form found")
		}
	}
	if o.PinSHA256 != "" {
		want, err := parsePin(o.PinSHA256)
		if err != nil {
			return nil, err
		}
		// A pin names one certificate, so it replaces chain and name, which a self-signed one
		// cannot offer. VerifyConnection runs on every handshake, so nothing goes unverified.
		conf.InsecureSkipVerify = conf.RootCAs == nil
		conf.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyPin(state, want, time.Now())
		}
	}
	return conf, nil
}

// PinError means that the server's certificate is not the pinned one.
type PinError struct {
	Got, Want string // SHA-256 in hex
}

func (e *PinError) Error() string {
	return fmt.Sprintf("its SHA-256 is %s, pinned is %s", e.Got, e.Want)
}

func parsePin(pin string) ([]byte, error) {
	sum, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(pin), ":", ""))
	if err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("pinned digest %q: want the SHA-256 of a certificate, %d hex digits", pin, 2*sha256.Size)
	}
	return sum, nil
}

func verifyPin(state tls.ConnectionState, want []byte, now time.Time) error {
	if len(state.PeerCertificates) == 0 {
		return &PinError{Got: "absent", Want: hex.EncodeToString(want)}
	}
	leaf := state.PeerCertificates[0]
	if sum := sha256.Sum256(leaf.Raw); !bytes.Equal(sum[:], want) {
		return &PinError{Got: hex.EncodeToString(sum[:]), Want: hex.EncodeToString(want)}
	}
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired, Detail: fmt.Sprintf(
			"it is %s, valid from %s to %s", now.UTC().Format(time.RFC3339), leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))}
	}
	return nil
}

// PinSHA256 returns the digest to pin for the first certificate in a PEM file, in hex.
func PinSHA256(certPEM []byte) (string, error) {
	for {
		var block *pem.Block
		if block, certPEM = pem.Decode(certPEM); block == nil {
			return "", errors.New("certificate to pin: no certificate in PEM form found")
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", fmt.Errorf("certificate to pin: %w", err)
		}
		sum := sha256.Sum256(block.Bytes)
		return hex.EncodeToString(sum[:]), nil
	}
}
