package stream

import "io"

// Values returns the values of a stream of JSON, and the error that ends it.
func Values(from io.Reader, most int) (values []string, err error) {
	s := scanner{from: from, max: most}
	for {
		value, err := s.value()
		if err != nil {
			return values, err
		}
		values = append(values, string(value))
	}
}

// Items returns the items of a list and its other fields, by key.
func Items(from io.Reader, most int) (items []string, others map[string]string, err error) {
	s := scanner{from: from, max: most}
	others = map[string]string{}
	err = s.object(func(key string) error {
		if key == "items" {
			return s.array(func(value []byte) error {
				items = append(items, string(value))
				return nil
			})
		}
		value, err := s.value()
		others[key] = string(value)
		return err
	})
	return items, others, err
}

// Find is find.
func Find(object []byte, keys ...string) []byte { return find(object, keys...) }
