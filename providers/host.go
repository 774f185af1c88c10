package providers

import (
	"net"
	"strconv"
	"strings"
)

// checkHost returns the problem of a provider's host, or "".
func checkHost(host string) string {
	if strings.Contains(host, "/") {
		return "a host has neither scheme nor path"
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		if port, err := strconv.Atoi(name[i+1:]); err != nil || port < 1 || port > 65535 {
			return "the port is not a number from 1 to 65535"
		}
		name = name[:i]
	}
	if ip, ok := strings.CutPrefix(name, "["); ok {
		ip, closed := strings.CutSuffix(ip, "]")
		if !closed || net.ParseIP(ip) == nil || wildcard {
			return "it is not an IPv6 address in brackets"
		}
		return ""
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return "it is not a host name: a label is empty"
		}
		for i := range len(label) {
			if c := label[i] | 0x20; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || label[i] == '_') {
				return `it is not a host name in ASCII, with "*." at most in front`
			}
		}
	}
	return ""
}
