package secret

import (
	"regexp"
	"slices"
	"strings"
)

// maxText is the largest part of a text that is read and kept, in bytes. The rest of a longer one is cut.
const maxText = 16 << 10

// cut replaces each part that was removed from a text.
const cut = "…"

// Text returns a text from outside, such as an application's error, in a form that errors, logs and the journal may
// hold. Text cuts the userinfo, query and fragment of a URL, whether quoted, broken or plain. Text cuts values that are
// labelled as a credential and values that look like a credential.
//
// It goes by patterns, since the parts of an error's text are not known. In doubt it cuts, and leaves a … there.
func Text(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + cut
	}
	s = cutURLs(s)
	s = barePort.cut(s, "${1}"+cut)
	s = bareQuery.cut(s, "${1}?"+cut)
	s = bareUser.cut(s, cut+"@")
	for _, known := range credentialForms {
		s = known.cut(s, "${1}"+cut)
	}
	s = grouped.ReplaceAllStringFunc(s, func(run string) string {
		if isCardNumber(run) {
			return cut
		}
		return run
	})
	return cutValues(spokenCode.ReplaceAllString(s, "${1}"+cut))
}

// form is a pattern, and parts of which every match contains at least one. Most texts have none of them, and a search
// for these costs much less.
type form struct {
	pattern *regexp.Regexp
	parts   []string // none: it is always searched for
}

func formOf(pattern string, parts ...string) form { return form{regexp.MustCompile(pattern), parts} }

func (f form) cut(s, leaves string) string {
	if len(f.parts) > 0 && !slices.ContainsFunc(f.parts, func(part string) bool { return strings.Contains(s, part) }) {
		return s
	}
	return f.pattern.ReplaceAllString(s, leaves)
}

// Recorded returns a text as the journal keeps it: cut as by Text, valid UTF-8, and within a limit of 1,000 bytes.
func Recorded(s string) string {
	s = strings.ToValidUTF8(Text(s), "?")
	if len(s) > maxRecorded {
		s = strings.ToValidUTF8(s[:maxRecorded], "") + cut
	}
	return s
}

const maxRecorded = 1000

var (
	// The beginning of a URL, or of a quoted URL without scheme and host.
	scheme = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:(?:/|\\/){2}|["'\x60]/`)

	// What net/url prints of a password that is none: invalid port ":s3cret" after host.
	barePort = formOf(`(invalid port )"(?:[^"\\]|\\.)*"`, "invalid port ")

	// A query or a user of what has no scheme: /v1/charges?key=1, user:password@tcp(db)/orders.
	bareQuery = formOf(`([^\s"'<>?])\?[^\s"'<>]*[^\s"'<>:,;.)\]}]`, "?")
	bareUser  = formOf(`[^\s"'<>/@:]+:[^\s"'<>@/][^\s"'<>@]*@`, "@")
)

// credentialForms are the patterns for credentials anywhere in a text: after an Authorization header's scheme (RFC 9110
// section 11.4), by the prefixes that issuers publish for scanners, or as a JWT (RFC 7519). The first group of a
// pattern is kept.
var credentialForms = []form{
	formOf(`(?i)\b((?:bearer|basic|dpop|negotiate|token)\s+)[\w.~+/=-]*[\d=+/.][\w.~+/=-]*`),
	formOf(`()\b(?:sk|rk|ek|whsec|shp[a-z]{2}|gh[a-z]|github_pat)_\w{6,}(?:[+/=-]\w*)*`, "_"),
	formOf(`()\b(?:live|test|sandbox)_[\w-]{20,}`, "live_", "test_", "sandbox_"),
	formOf(`()\b(?:EAAA|AQE|sq0[a-z]{3}-|xox[a-z]-)[\w+/=-]{10,}`, "EAAA", "AQE", "sq0", "xox"),
	formOf(`()\baccess_token\$\w+\$[\w$]+`, "access_token$"),
	formOf(`(_secret_)\w{6,}`, "_secret_"),
	formOf(`()\beyJ[\w-]*\.[\w-]*(?:\.[\w-]*)*`, "eyJ"),
	formOf(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*)`, "-----BEGIN "),
}

// cutURLs leaves each URL's scheme, host and path in a text.
func cutURLs(s string) string {
	var b strings.Builder
	for {
		at := scheme.FindStringIndex(s)
		if at == nil {
			b.WriteString(s)
			return b.String()
		}
		end := at[1] + endOfURL(s[at[1]:], quoteBefore(s[:at[0]+1]))
		b.WriteString(s[:at[1]])
		b.WriteString(shortURL(s[at[1]:end]))
		s = s[end:]
	}
}

// quoteBefore returns the quote before the text's last character, or the last character if that is a quote, or 0.
func quoteBefore(s string) byte {
	for i := len(s) - 1; i >= max(0, len(s)-2); i-- {
		switch s[i] {
		case '<':
			return '>'
		case '"', '\'', '`':
			return s[i]
		}
	}
	return 0
}

// endOfURL returns the length of the URL that s begins with. A quoted URL ends at the closing quote, whatever stands
// before. A line break does not end one that is not quoted.
func endOfURL(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++ // an escaped character ends nothing
		case c == quote && quote != 0, quote == 0 && strings.IndexByte(" \t\"'`<>", c) >= 0:
			return i
		}
	}
	return len(s)
}

// shortURL takes the text after a URL's scheme. shortURL leaves the host and path, and the punctuation after the URL.
func shortURL(s string) string {
	bare := strings.TrimRight(s, ":,;.)]}")
	tail := s[len(bare):]
	query := strings.IndexAny(bare, "?#")
	short := bare
	if query >= 0 {
		short = bare[:query] + bare[query:query+1] + cut
	}
	host, path, found := strings.Cut(short, "/")
	if user := strings.LastIndexByte(short, '@'); user >= 0 {
		short = cut + short[user:]
	} else if name, port, isPort := strings.Cut(host, ":"); isPort && strings.Trim(port, "0123456789") != "" && !strings.HasPrefix(host, "[") {
		if short = name + ":" + cut; found { // a password, and what was to follow it is missing
			short += "/" + path
		}
	}
	if query >= 0 && strings.Contains(bare[query:], "@") && !strings.Contains(bare[:query], "/") {
		short = cut // the password may hold the ? itself
	}
	return short + tail
}

// named is a name and the separator before a value, as forms, headers, JSON, and Go's own %v and %q print both.
var named = regexp.MustCompile(`([A-Za-z][\w.\[\]-]*)(\\*["']?\s*(?:=>|:=|[:=])\s*\\*["'\[]?)`)

// cutValues cuts the values that are called a credential.
func cutValues(s string) string {
	var b strings.Builder
	for {
		at := named.FindStringSubmatchIndex(s)
		if at == nil {
			b.WriteString(s)
			return b.String()
		}
		name, parts, rest := s[at[2]:at[3]], s[at[4]:at[5]], s[at[1]:]
		b.WriteString(s[:at[1]])
		end := 0
		if Query(strings.TrimRight(name, ".-")) {
			end = endOfValue(name, parts, rest)
		}
		if end > 0 && rest[:end] != cut {
			b.WriteString(cut)
			s = rest[end:]
			continue
		}
		s = rest
	}
}

// endOfValue returns the length of the value that s begins with, or 0 if the words are a sentence's: "step authorize:
// declined".
func endOfValue(name, parts, s string) int {
	last := parts[len(parts)-1]
	switch {
	case last == '[':
		return until(s, "]\n")
	case last == '"' || last == '\'':
		return until(s, string(last)+"\n")
	case strings.EqualFold(name, "authorization"), strings.EqualFold(name, "proxy-authorization"),
		strings.EqualFold(name, "cookie"), strings.EqualFold(name, "set-cookie"):
		return until(s, "\r\n")
	}
	end := until(s, " \t\r\n\"'&;,<>(){}]")
	if strings.HasSuffix(parts, ": ") && !strings.ContainsAny(name, "-_") && !looksRandom(s[:end]) {
		return 0
	}
	return end
}

func until(s, ends string) int {
	if i := strings.IndexAny(s, ends); i >= 0 {
		return i
	}
	return len(s)
}

// looksRandom reports whether a text looks random rather than like a word.
func looksRandom(word string) bool {
	return len(word) >= 24 || len(word) >= 6 && strings.ContainsAny(word, "0123456789") && strings.ContainsAny(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz")
}
