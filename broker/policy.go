package broker

import "fmt"

// Policy says what happens to a batch that finds a subscriber's queue full (checkpoint 5), or to
// a frame that finds the writer's queue full (6).
type Policy uint8

const (
	PolicyDropNew Policy = iota // it is dropped for this subscriber
	PolicyDropOld               // the oldest that wait are dropped until it fits
	PolicyBlock                 // it waits for room: at 5 the publish, and with it its stream, at 6 the feeder
)

var policyNames = [...]string{PolicyDropNew: "drop_new", PolicyDropOld: "drop_old", PolicyBlock: "block"}

// String is the policy's name in settings and records.
func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// MarshalText fails on a policy that has no name.
func (p Policy) MarshalText() ([]byte, error) {
	if int(p) >= len(policyNames) {
		return nil, fmt.Errorf("policy %d: want drop_new, drop_old or block", uint8(p))
	}
	return []byte(policyNames[p]), nil
}

// UnmarshalText is ParsePolicy.
func (p *Policy) UnmarshalText(text []byte) error {
	v, err := ParsePolicy(string(text))
	if err == nil {
		*p = v
	}
	return err
}

// ParsePolicy parses the text of String; its error lists the choices.
func ParsePolicy(text string) (Policy, error) {
	for i, name := range policyNames {
		if name == text {
			return Policy(i), nil
		}
	}
	return 0, fmt.Errorf("policy %q: want drop_new, drop_old or block", text)
}
