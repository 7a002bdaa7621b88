/*
 * A load generator on librdkafka: how fast a broker takes, gives and answers.
 *
 *   load MODE BROKER TOPIC COUNT SIZE [connections=N] [librdkafka setting=value]...
 *
 *   produce    COUNT keyed messages of SIZE bytes, spread over the partitions by key, batched by librdkafka
 *   fill       COUNT messages of SIZE bytes, the same number to each partition, one partition after the other
 *   consume    COUNT messages from the beginning of all partitions, without a group
 *   latency    COUNT messages to partition 0, each sent after the last one was acknowledged
 *   unbatched  COUNT messages, each in a Produce request of its own, pipelined, round-robin over the partitions;
 *              connections=N sends them through N producers, which is N connections
 *
 * Prints one line of JSON. Exits with 1 when a message was lost or refused, with 2 when it could not start.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MOST_CONNECTIONS 64
#define CONSUME_BATCH 10000
// A batch is handed over when it is full or this time has passed: a long time would be added whole to the last batch.
#define CONSUME_MS 20
#define FINISH_MS 300000
#define ANSWER_MS 10000

struct load {
    const char *mode, *broker, *topic;
    long count;
    size_t size;
    int connections;
    char **settings;
    int setting_count;
};

static long acknowledged, refused;
static double *latencies;
static long latency_count;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double own_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "load: %s: %s\n", what, why);
    exit(2);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char reason[512];
    if (rd_kafka_conf_set(conf, name, value, reason, sizeof reason) != RD_KAFKA_CONF_OK)
        fail(name, reason);
}

/* Later settings win, so what the command line says overrides what a mode sets before it. */
static void set_from_command_line(rd_kafka_conf_t *conf, const struct load *load) {
    for (int i = 0; i < load->setting_count; i++) {
        char name[128];
        const char *equals = strchr(load->settings[i], '=');
        if (!equals || (size_t)(equals - load->settings[i]) >= sizeof name)
            fail(load->settings[i], "not a setting of the form name=value");
        size_t length = equals - load->settings[i];
        memcpy(name, load->settings[i], length);
        name[length] = 0;
        if (strcmp(name, "connections"))
            set(conf, name, equals + 1);
    }
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err)
        refused++;
    else
        acknowledged++;
    if (message->_private)
        latencies[latency_count++] = now() - *(double *)message->_private;
}

static rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf, const struct load *load) {
    char reason[512];
    set(conf, "bootstrap.servers", load->broker);
    set_from_command_line(conf, load);
    rd_kafka_t *client = rd_kafka_new(type, conf, reason, sizeof reason);
    if (!client)
        fail("client", reason);
    return client;
}

static rd_kafka_t *new_producer(const struct load *load) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    set(conf, "queue.buffering.max.messages", "1000000");
    if (!strcmp(load->mode, "latency"))
        set(conf, "linger.ms", "0");
    if (!strcmp(load->mode, "unbatched")) {
        set(conf, "linger.ms", "0");
        set(conf, "batch.num.messages", "1");
    }
    return new_client(RD_KAFKA_PRODUCER, conf, load);
}

static rd_kafka_topic_t *open_topic(rd_kafka_t *client, const struct load *load, int *partitions) {
    rd_kafka_topic_t *topic = rd_kafka_topic_new(client, load->topic, NULL);
    const struct rd_kafka_metadata *metadata;
    // A topic that was just created may take a moment to be known.
    for (double deadline = now() + ANSWER_MS / 1e3;; rd_kafka_metadata_destroy(metadata)) {
        rd_kafka_resp_err_t error = rd_kafka_metadata(client, 0, topic, &metadata, ANSWER_MS);
        if (error)
            fail("metadata", rd_kafka_err2str(error));
        if (metadata->topic_cnt == 1 && !metadata->topics[0].err && metadata->topics[0].partition_cnt)
            break;
        if (now() > deadline)
            fail(load->topic, "no such topic");
        rd_kafka_poll(client, 20);
    }
    *partitions = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    return topic;
}

static char *new_value(size_t size) {
    char *value = malloc(size ? size : 1);
    for (size_t i = 0; i < size; i++)
        value[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[(rand() >> 8) % 36];
    return value;
}

static void send_message(rd_kafka_t *client, rd_kafka_topic_t *topic, int32_t partition, char *value, size_t size,
                         const char *key, size_t key_size, void *opaque) {
    while (rd_kafka_produce(topic, partition, RD_KAFKA_MSG_F_COPY, value, size, key, key_size, opaque) == -1) {
        if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(client, 1);
    }
}

static int report_sent(const struct load *load, double seconds) {
    printf("{\"mode\": \"%s\", \"messages\": %ld, \"refused\": %ld, \"seconds\": %.6f, \"messages_per_second\": %.1f, "
           "\"megabytes_per_second\": %.3f, \"client_cpu\": %.3f}\n",
           load->mode, acknowledged, refused, seconds, acknowledged / seconds, acknowledged * (double)load->size / seconds / 1e6,
           own_cpu());
    return acknowledged != load->count;
}

static int produce(const struct load *load) {
    int partitions;
    rd_kafka_t *client = new_producer(load);
    rd_kafka_topic_t *topic = open_topic(client, load, &partitions);
    char *value = new_value(load->size);
    int by_partition = !strcmp(load->mode, "fill");
    long run = load->count / partitions;
    double start = now();
    for (long i = 0; i < load->count; i++) {
        char key[24];
        int key_size = snprintf(key, sizeof key, "%ld", i & 1023);
        int32_t partition = by_partition ? (int32_t)(i / run % partitions) : RD_KAFKA_PARTITION_UA;
        send_message(client, topic, partition, value, load->size, key, key_size, NULL);
        if ((i & 255) == 0)
            rd_kafka_poll(client, 0);
    }
    rd_kafka_flush(client, FINISH_MS);
    return report_sent(load, now() - start);
}

static int unbatched(const struct load *load) {
    rd_kafka_t *clients[MOST_CONNECTIONS];
    rd_kafka_topic_t *topics[MOST_CONNECTIONS];
    char *value = new_value(load->size);
    int partitions;
    for (int c = 0; c < load->connections; c++) {
        clients[c] = new_producer(load);
        topics[c] = open_topic(clients[c], load, &partitions);
        /* One message before the clock starts, so that no connection is made inside the measurement. */
        send_message(clients[c], topics[c], 0, value, load->size, NULL, 0, NULL);
        rd_kafka_flush(clients[c], ANSWER_MS);
    }
    if (acknowledged != load->connections)
        fail("first message", "not acknowledged");
    acknowledged = 0;
    double start = now();
    for (long i = 0; i < load->count; i++) {
        int c = (int)(i % load->connections);
        send_message(clients[c], topics[c], (int32_t)(i / load->connections % partitions), value, load->size, NULL, 0, NULL);
        if ((i & 255) == 0)
            for (int each = 0; each < load->connections; each++)
                rd_kafka_poll(clients[each], 0);
    }
    for (int c = 0; c < load->connections; c++)
        rd_kafka_flush(clients[c], FINISH_MS);
    return report_sent(load, now() - start);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static int latency(const struct load *load) {
    int partitions;
    rd_kafka_t *client = new_producer(load);
    rd_kafka_topic_t *topic = open_topic(client, load, &partitions);
    char *value = new_value(load->size);
    latencies = calloc(load->count, sizeof *latencies);
    send_message(client, topic, 0, value, load->size, NULL, 0, NULL); /* connects to the leader outside the measurement */
    rd_kafka_flush(client, ANSWER_MS);
    for (long i = 0; i < load->count; i++) {
        double start = now();
        send_message(client, topic, 0, value, load->size, NULL, 0, &start);
        while (latency_count <= i)
            rd_kafka_poll(client, 100);
    }
    qsort(latencies, latency_count, sizeof *latencies, compare);
    printf("{\"mode\": \"latency\", \"messages\": %ld, \"refused\": %ld, \"p50\": %.9f, \"p99\": %.9f, \"p999\": %.9f, "
           "\"worst\": %.9f, \"client_cpu\": %.3f}\n",
           latency_count, refused, latencies[latency_count / 2], latencies[latency_count * 99 / 100],
           latencies[latency_count * 999 / 1000], latencies[latency_count - 1], own_cpu());
    return refused > 0;
}

static int consume(const struct load *load) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", "load");
    set(conf, "enable.auto.commit", "false");
    int partitions;
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, conf, load);
    open_topic(client, load, &partitions);
    rd_kafka_topic_partition_list_t *assignment = rd_kafka_topic_partition_list_new(partitions);
    for (int p = 0; p < partitions; p++)
        rd_kafka_topic_partition_list_add(assignment, load->topic, p)->offset = 0;
    rd_kafka_assign(client, assignment);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);

    /* The clock runs from the first message: finding the offsets is another measurement (first_message_after). */
    static rd_kafka_message_t *messages[CONSUME_BATCH];
    double start = now(), first = 0;
    long got = 0, bytes = 0;
    while (got < load->count && now() - start < FINISH_MS / 1e3) {
        ssize_t count = rd_kafka_consume_batch_queue(queue, CONSUME_MS, messages, CONSUME_BATCH);
        for (ssize_t i = 0; i < count; i++) {
            if (!messages[i]->err) {
                if (!first)
                    first = now();
                got++;
                bytes += messages[i]->len;
            }
            rd_kafka_message_destroy(messages[i]);
        }
    }
    double seconds = now() - first;
    printf("{\"mode\": \"consume\", \"messages\": %ld, \"seconds\": %.6f, \"messages_per_second\": %.1f, "
           "\"megabytes_per_second\": %.3f, \"first_message_after\": %.6f, \"client_cpu\": %.3f}\n",
           got, seconds, got / seconds, bytes / seconds / 1e6, first - start, own_cpu());
    return got < load->count;
}

int main(int argc, char **argv) {
    if (argc < 6)
        fail("usage", "load produce|fill|consume|latency|unbatched BROKER TOPIC COUNT SIZE [name=value]...");
    struct load load = {argv[1], argv[2], argv[3], atol(argv[4]), strtoul(argv[5], NULL, 10), 1, argv + 6, argc - 6};
    for (int i = 6; i < argc; i++)
        if (!strncmp(argv[i], "connections=", 12))
            load.connections = atoi(argv[i] + 12);
    if (load.connections < 1 || load.connections > MOST_CONNECTIONS)
        fail("connections", "from 1 to 64");
    if (!strcmp(load.mode, "consume"))
        return consume(&load);
    if (!strcmp(load.mode, "latency"))
        return latency(&load);
    if (!strcmp(load.mode, "unbatched"))
        return unbatched(&load);
    if (!strcmp(load.mode, "produce") || !strcmp(load.mode, "fill"))
        return produce(&load);
    fail(load.mode, "no such mode");
}
