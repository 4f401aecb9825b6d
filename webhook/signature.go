package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The headers of a delivery.
const (
	signatureHeader = "X-Hub-Signature-256"
	eventHeader     = "X-GitHub-Event"
	deliveryHeader  = "X-GitHub-Delivery"
)

// signaturePrefix names the only algorithm we accept. The host still sends a
// SHA-1 signature beside it, which is ignored.
const signaturePrefix = "sha256="

// parseSignature reads the signature header. It fails before anything of the
// body was read, so that a stranger costs us nothing.
func parseSignature(header string) (mac []byte, ok bool) {
	digits, ok := strings.CutPrefix(header, signaturePrefix)
	if !ok || len(digits) != hex.EncodedLen(sha256.Size) {
		return nil, false
	}
	mac, err := hex.DecodeString(digits)
	return mac, err == nil
}

// signed reports, in constant time, whether mac is the body's.
func signed(body, mac, secret []byte) bool { return hmac.Equal(mac, sign(body, secret)) }

func sign(body, secret []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(body)
	return h.Sum(nil)
}
