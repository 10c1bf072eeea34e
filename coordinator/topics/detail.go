package topics

import (
	"fmt"
	"strings"
)

// kafkaDetailLimit is how many topics a detail of Kafka names.
const kafkaDetailLimit = 3

// enumerate joins what a detail names: all of it, or as many as Kafka does.
func (o Options) enumerate(items []string) string {
	if o.Kafka && len(items) > kafkaDetailLimit {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:kafkaDetailLimit], ", "), len(items)-kafkaDetailLimit)
	}
	return strings.Join(items, ", ")
}
