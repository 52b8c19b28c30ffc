package store

import (
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// uids are the UIDs of objects that are no UUIDs. The others are kept in 16 bytes.
type uids map[types.NamespacedName]types.UID

// uuidLength is the length of the text of a UUID.
const uuidLength = 36

// shorten returns a UID in the form in which it is kept: zero if it is among uids.
func (u uids) shorten(at types.NamespacedName, uid types.UID) (short [16]byte) {
	text := string(uid)
	if len(text) == uuidLength {
		digits := text[0:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
		if _, err := hex.Decode(short[:], []byte(digits)); err == nil && longUID(short) == uid {
			delete(u, at)
			return short
		}
	}
	if uid != "" {
		u[types.NamespacedName{Namespace: strings.Clone(at.Namespace), Name: strings.Clone(at.Name)}] = types.UID(strings.Clone(text))
	}
	return [16]byte{}
}

func (u uids) of(at types.NamespacedName, o object) types.UID {
	if o.uid == [16]byte{} {
		return u[at]
	}
	return longUID(o.uid)
}

func longUID(short [16]byte) types.UID {
	digits := hex.EncodeToString(short[:])
	return types.UID(digits[0:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:])
}
