// Package secret knows which header fields and query parameters carry credentials. They are withheld: never written
// to the journal, an error or a log. The caller adds them again when an operation is resumed.
//
// A missed credential would be stored in the clear, while a withheld plain value only has to be supplied again, so a
// name in doubt is withheld. All functions are safe for concurrent use.
package secret

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Header reports whether a header field of this name is withheld. Case does not matter, but for capitals inside a
// name, which part words: dbPass is withheld as db-pass is, and dbpass is not. The fields of an idempotency key never
// are.
func Header(name string) bool { return judgedOf(name)&withheld != 0 }

// Query reports whether a query parameter of this name, already unescaped, is withheld. Names are read as by
// [Header].
func Query(name string) bool { return judgedOf(name)&withheld != 0 }

// judgement is a set of the following facts, which a name states about its value.
type judgement uint8

const (
	withheld   judgement = 1 << iota // it is never written
	dated                            // it is renewed with a signature
	signing                          // it is a signature
	propagates                       // it says which trace a call belongs to
)

// judgedOf returns a name's judgement.
func judgedOf(name string) judgement {
	judged.RLock()
	is, known := judged.names[name]
	judged.RUnlock()
	if known {
		return is
	}
	is = judge(name)
	judged.Lock()
	defer judged.Unlock()
	if len(judged.names) < maxJudged && len(name) <= 64 {
		judged.names[strings.Clone(name)] = is
	}
	return is
}

// judged caches the judgements of names, since a program sends the same few over and over. Its size is limited, since
// strangers may choose the names of parameters.
var judged = struct {
	sync.RWMutex
	names map[string]judgement
}{names: map[string]judgement{}}

const maxJudged = 1024

func judge(name string) (is judgement) {
	if kind := kindOf(name); kind == caller || kind == matter {
		is |= withheld
	}
	words := split(strings.ToLower(name))
	if isDated(words) {
		is |= dated
	}
	if isSigning(words) && !slices.Contains(payments, strings.ToLower(name)) {
		is |= signing
	}
	if isPropagated(name) {
		is |= propagates
	}
	return is
}

// Counts reports whether a withheld query parameter's value belongs to the request's meaning, like a ticket's number:
// another value makes another request. Counts returns false for a value that identifies the caller. Such a value is
// renewed from time to time (a key, a token, a session, a password) or made for each request (a signature), and the
// request stays the same.
func Counts(name string) bool { return kindOf(name) != caller }

// kind is the kind of value that a name stands for. In doubt, the later one here applies.
type kind uint8

const (
	open   kind = iota // may be written
	matter             // is withheld, and tells requests apart
	caller             // is withheld, and identifies the caller
)

func kindOf(name string) kind {
	lower := strings.ToLower(name)
	// Idempotency-Key, I-Twilio-Idempotency-Token and X-Idempotence-Uuid hold the key, which the journal must have.
	if strings.Contains(lower, "idempoten") {
		return open
	}
	if oneTime(lower) || slices.Contains(payments, lower) || lower == signIn {
		return caller
	}
	found := kindOfWords(split(lower))
	if lower != name {
		// Capitals can also hide a word, as in PHPSessID.
		found = max(found, kindOfWords(split(name)))
	}
	if found == open && isCard(name) {
		return caller // it says who pays, and a digest of it could be guessed
	}
	return found
}

func kindOfWords(name []string) (found kind) {
	previous := ""
	for i, word := range name {
		last := i == len(name)-1
		switch {
		case word == "key" || word == "keys":
			if !slices.Contains(openKeys, previous) {
				return caller
			}
		case slices.Contains(words, word), last && slices.Contains(lastWords, word), last && endsAsOne(word):
			return caller
		case slices.ContainsFunc(fragments, func(f string) bool { return strings.Contains(word, f) }):
			return caller
		case slices.Contains(matterWords, word), last && slices.Contains(lastMatterWords, word):
			found = matter
		}
		previous = word
	}
	return found
}

// endsAsOne reports whether a word without its inner capitals names a key or an authentication.
func endsAsOne(word string) bool {
	for _, end := range ends {
		if before, does := strings.CutSuffix(word, end); does {
			return !slices.Contains(openEnds, word) && !(end == "key" && slices.Contains(openKeys, before))
		}
	}
	return false
}

// split cuts a name into lower-case words, so that apiKey, API_KEY, api-key and AWSAccessKeyId show their keys. split
// cuts at each character that is not a letter, and at capitals that start a word.
func split(name string) []string {
	var found []string
	start, previous := -1, rune(0)
	end := func(at int) {
		if start >= 0 {
			found = append(found, strings.ToLower(name[start:at]))
		}
		start = -1
	}
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r):
			end(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && (unicode.IsLower(previous) || startsWord(name[i:])):
			end(i)
			start = i
		}
		previous = r
	}
	end(len(name))
	return found
}

// startsWord reports whether s begins with a capitalized word's first letter, as K is in APIKey, and not with an
// acronym's capital.
func startsWord(s string) bool {
	_, n := utf8.DecodeRuneInString(s)
	next, _ := utf8.DecodeRuneInString(s[n:])
	return unicode.IsLower(next)
}
