package tables

import (
	"net/url"
	"strings"
)

func (k Key) setPair(text, key string) (string, error) {
	found := pairs(text, k.Name)
	if len(found) > 1 {
		return text, k.invalid("it is there %d times", len(found))
	}
	return withPair(text, k.Name, key, found), nil
}

func (k Key) carriedPair(text string) (key string, present bool, err error) {
	found := pairs(text, k.Name)
	switch len(found) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, k.invalid("it is there %d times", len(found))
	}
	key, err = url.QueryUnescape(text[found[0].value.from:found[0].value.to])
	if err != nil {
		return "", true, k.invalid("its escapes are malformed")
	}
	return key, true, nil
}

// checkForm returns the reason why a body cannot be read as a form, or nil.
func (k Key) checkForm(m Message) error {
	switch {
	case m.coded():
		return k.invalid(isCompressed)
	case !m.isForm():
		return k.invalid("the body has to be a form: set the Content-Type application/x-www-form-urlencoded")
	}
	return nil
}

func (k Key) setForm(m *Message, key string) error {
	if err := k.checkForm(*m); err != nil {
		return err
	}
	form, err := k.setPair(string(m.Body), key)
	if err == nil {
		m.Body = []byte(form)
	}
	return err
}

func (k Key) carriedForm(m Message) (key string, present bool, err error) {
	if err := k.checkForm(m); err != nil {
		return "", false, err
	}
	return k.carriedPair(string(m.Body))
}

func (k Key) clearForm(m *Message) error {
	if err := k.checkForm(*m); err != nil {
		return err
	}
	form := string(m.Body)
	m.Body = []byte(withoutPairs(form, pairs(form, k.Name)))
	return nil
}

// inJSON finds where a JSON body has the key, or would have it.
func (k Key) inJSON(m Message) (jsonPlace, error) {
	if m.coded() {
		return jsonPlace{}, k.invalid(isCompressed)
	}
	place, problem := locate(m.Body, strings.Split(k.Name, "."))
	if problem == "" && place.there && m.Body[place.value.from] != '"' {
		problem = notAString
	}
	if problem != "" {
		return jsonPlace{}, k.invalid("%s", problem)
	}
	return place, nil
}

func (k Key) setJSON(m *Message, key string) error {
	place, err := k.inJSON(*m)
	if err != nil {
		return err
	}
	m.Body = place.with(m.Body, k.field(), quote(key))
	return nil
}

func (k Key) carriedJSON(m Message) (key string, present bool, err error) {
	place, err := k.inJSON(m)
	if err != nil || !place.there {
		return "", place.there, err
	}
	return unquote(m.Body[place.value.from:place.value.to]), true, nil
}

func (k Key) clearJSON(m *Message) error {
	place, err := k.inJSON(*m)
	if err != nil {
		return err
	}
	m.Body = place.without(m.Body)
	return nil
}

// field returns the path's last name.
func (k Key) field() string { return k.Name[strings.LastIndexByte(k.Name, '.')+1:] }
