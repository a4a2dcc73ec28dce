package gavelapi

import "time"

// NewWebhook is the body of POST /v1/webhooks: an endpoint to be told of alarms.
type NewWebhook struct {
	Name string `json:"name" minLength:"1" maxLength:"64"`
	URL  string `json:"url" minLength:"1" maxLength:"2000" doc:"http or https; the arbiter must be allowed to reach it if it is not public"`
	// Kinds are the only kinds of alarms that it is told of; empty is all.
	Kinds  []string `json:"kinds,omitempty" maxItems:"32" doc:"only these kinds of alarms; empty is all"`
	Secret string   `json:"secret,omitempty" maxLength:"200" doc:"to sign with, as whsec_ and base64; one is made when it is absent"`
	Reason string   `json:"reason,omitempty" maxLength:"500"`
}

// Webhook is an endpoint that is told of alarms.
type Webhook struct {
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	Kinds     []string  `json:"kinds"`
	CreatedAt time.Time `json:"created_at"`
	Waiting   int64     `json:"waiting" doc:"messages on their way"`
	Failed    int64     `json:"failed" doc:"messages that were given up"`
	Secret    string    `json:"secret,omitempty" doc:"in the answer to making it, and never again"`
	// OldSecretUntil is when the last of the secrets ends that were replaced.
	OldSecretUntil *time.Time `json:"old_secret_until,omitempty" doc:"until when an older secret signs beside the newest"`
}

// WebhookRotation is the body of POST /v1/webhooks/{name}/rotate.
type WebhookRotation struct {
	Secret string `json:"secret,omitempty" maxLength:"200" doc:"the new one, as whsec_ and base64; one is made when it is absent"`
	// KeepSeconds is how long the secret that is replaced goes on signing
	// beside the new one. 0 ends it at once, and all before it.
	KeepSeconds *int64 `json:"keep_seconds,omitempty" minimum:"0" maximum:"2592000" doc:"how long the one before signs beside it; a day when absent; 0 ends it and all before it at once"`
	Reason      string `json:"reason,omitempty" maxLength:"500"`
}

// WebhookList lists endpoints by name.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks"`
}

// WebhookMessage is what an endpoint gets, signed according to Standard
// Webhooks. Type is alarm.started, alarm.ended or test; Data is absent in a test.
type WebhookMessage struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp" doc:"when it happened"`
	Data      *Alarm    `json:"data,omitempty"`
}

// Delivery is one message to one endpoint.
type Delivery struct {
	ID         int64      `json:"id"`
	MessageID  string     `json:"message_id" doc:"the webhook-id header"`
	Event      string     `json:"event"`
	AlarmID    int64      `json:"alarm_id,omitempty"`
	State      string     `json:"state" enum:"waiting,delivered,failed"`
	Attempts   int        `json:"attempts"`
	Status     int        `json:"status,omitempty" doc:"HTTP status of the last attempt; 0 is no answer"`
	Error      string     `json:"error,omitempty" doc:"of the last attempt"`
	CreatedAt  time.Time  `json:"created_at"`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"of the next attempt, while it waits"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// DeliveryList is a page, newest first.
type DeliveryList struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"`
}
