/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * DPDK's librte_acl over a ClassBench rule set and trace, beside `weir bench classify`: nanoseconds
 * per lookup for each algorithm and batch size, and how many answers differ from the first match by
 * a linear search over the same files. Not part of the build: see ../README.md. IPv4 only.
 *
 * Usage: rte_acl RULES TRACE. Prints `algorithm,batch,ns,differ,build_seconds`. Exits with 3 where
 * the library cannot build the rules: its tables of some sets of 100,000 exceed its limits.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rte_acl.h>
#include <rte_eal.h>

/* One packet, network byte order, as rte_acl wants its fields: 4-byte groups. */
struct packet {
	uint8_t proto;
	uint8_t pad[3];
	uint32_t src, dst;
	uint16_t src_port, dst_port;
} __attribute__((packed));

enum { PROTO, SRC, DST, SRC_PORT, DST_PORT, FIELDS };

RTE_ACL_RULE_DEF(acl_rule, FIELDS);

static const struct rte_acl_field_def DEFINITIONS[FIELDS] = {
	{ RTE_ACL_FIELD_TYPE_BITMASK, 1, PROTO, 0, offsetof(struct packet, proto) },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, SRC, 1, offsetof(struct packet, src) },
	{ RTE_ACL_FIELD_TYPE_MASK, 4, DST, 2, offsetof(struct packet, dst) },
	{ RTE_ACL_FIELD_TYPE_RANGE, 2, SRC_PORT, 3, offsetof(struct packet, src_port) },
	{ RTE_ACL_FIELD_TYPE_RANGE, 2, DST_PORT, 3, offsetof(struct packet, dst_port) },
};

struct filter {
	uint32_t src, dst, src_mask, dst_mask;
	uint16_t ports[4];
	uint8_t proto, proto_mask;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t mask_of(unsigned length)
{
	return length ? ~0u << (32 - length) : 0;
}

static size_t read_filters(const char *name, struct filter **out)
{
	FILE *file = fopen(name, "r");
	char *line = NULL;
	size_t room = 0, count = 0, size = 0;

	if (!file)
		exit(2);
	while (getline(&line, &room, file) > 0) {
		unsigned a[4], b[4], la, lb, p[4], proto, mask;
		struct filter f;

		if (sscanf(line, "@%u.%u.%u.%u/%u %u.%u.%u.%u/%u %u : %u %u : %u %x/%x",
			   &a[0], &a[1], &a[2], &a[3], &la, &b[0], &b[1], &b[2], &b[3], &lb,
			   &p[0], &p[1], &p[2], &p[3], &proto, &mask) != 16)
			exit(2);
		f = (struct filter){
			.src_mask = mask_of(la), .dst_mask = mask_of(lb),
			.ports = { p[0], p[1], p[2], p[3] }, .proto = proto, .proto_mask = mask,
		};
		f.src = (a[0] << 24 | a[1] << 16 | a[2] << 8 | a[3]) & f.src_mask;
		f.dst = (b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3]) & f.dst_mask;
		if (count == size)
			*out = realloc(*out, (size = size * 2 + 1024) * sizeof(f));
		(*out)[count++] = f;
	}
	fclose(file);
	return count;
}

static size_t read_trace(const char *name, struct packet **out)
{
	FILE *file = fopen(name, "r");
	char *line = NULL;
	size_t room = 0, count = 0, size = 0;

	if (!file)
		exit(2);
	while (getline(&line, &room, file) > 0) {
		unsigned f[5];

		if (sscanf(line, "%u %u %u %u %u", &f[0], &f[1], &f[2], &f[3], &f[4]) != 5)
			exit(2);
		if (count == size)
			*out = realloc(*out, (size = size * 2 + 1024) * sizeof(**out));
		(*out)[count++] = (struct packet){
			.proto = f[4], .src = __builtin_bswap32(f[0]), .dst = __builtin_bswap32(f[1]),
			.src_port = __builtin_bswap16(f[2]), .dst_port = __builtin_bswap16(f[3]),
		};
	}
	fclose(file);
	return count;
}

/* Number of the first filter that holds, from 1; 0 for none. */
static uint32_t first_match(const struct filter *filters, size_t count, const struct packet *p)
{
	uint32_t src = __builtin_bswap32(p->src), dst = __builtin_bswap32(p->dst);
	uint16_t sport = __builtin_bswap16(p->src_port), dport = __builtin_bswap16(p->dst_port);

	for (size_t i = 0; i < count; i++) {
		const struct filter *f = &filters[i];

		if ((src & f->src_mask) == f->src && (dst & f->dst_mask) == f->dst &&
		    sport >= f->ports[0] && sport <= f->ports[1] && dport >= f->ports[2] &&
		    dport <= f->ports[3] && (p->proto & f->proto_mask) == f->proto)
			return i + 1;
	}
	return 0;
}

static struct rte_acl_ctx *built(const struct filter *filters, size_t count)
{
	struct rte_acl_param parameters = {
		.name = "bench", .socket_id = -1, .rule_size = RTE_ACL_RULE_SZ(FIELDS),
		.max_rule_num = count,
	};
	struct rte_acl_config config = { .num_categories = 1, .num_fields = FIELDS };
	struct rte_acl_ctx *context = rte_acl_create(&parameters);
	struct acl_rule *rules = calloc(count, sizeof(*rules));

	for (size_t i = 0; i < count; i++) {
		const struct filter *f = &filters[i];
		struct acl_rule *r = &rules[i];

		r->data.category_mask = 1;
		r->data.priority = (int32_t)(count - i);
		r->data.userdata = i + 1;
		r->field[PROTO].value.u8 = f->proto;
		r->field[PROTO].mask_range.u8 = f->proto_mask;
		r->field[SRC].value.u32 = f->src;
		r->field[SRC].mask_range.u32 = __builtin_popcount(f->src_mask);
		r->field[DST].value.u32 = f->dst;
		r->field[DST].mask_range.u32 = __builtin_popcount(f->dst_mask);
		r->field[SRC_PORT].value.u16 = f->ports[0];
		r->field[SRC_PORT].mask_range.u16 = f->ports[1];
		r->field[DST_PORT].value.u16 = f->ports[2];
		r->field[DST_PORT].mask_range.u16 = f->ports[3];
	}
	memcpy(config.defs, DEFINITIONS, sizeof(DEFINITIONS));
	if (!context || rte_acl_add_rules(context, (struct rte_acl_rule *)rules, count) ||
	    rte_acl_build(context, &config)) {
		fputs("librte_acl cannot build these rules\n", stderr);
		exit(3);
	}
	free(rules);
	return context;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	static char *eal[] = { "rte_acl", "--no-huge", "--no-pci", "--no-shconf", "-m", "1024",
			       "--log-level=3", "-l", "0", "--force-max-simd-bitwidth=512", NULL };
	static const struct { const char *name; int number; } algorithms[] = {
		{ "avx2", RTE_ACL_CLASSIFY_AVX2 }, { "avx512x16", RTE_ACL_CLASSIFY_AVX512X16 },
		{ "avx512x32", RTE_ACL_CLASSIFY_AVX512X32 },
	};
	static const uint32_t batches[] = { 1, 32, 256 };
	struct filter *filters = NULL;
	struct packet *packets = NULL;
	struct rte_acl_ctx *context;
	const uint8_t **data;
	uint32_t *expected, *found;
	size_t rules, count;
	double began, build;

	if (argc != 3 || rte_eal_init(10, eal) < 0)
		return 2;
	rules = read_filters(argv[1], &filters);
	count = read_trace(argv[2], &packets);
	began = now();
	context = built(filters, rules);
	build = now() - began;
	data = calloc(count, sizeof(*data));
	expected = calloc(count, sizeof(*expected));
	found = calloc(count, sizeof(*found));
	for (size_t i = 0; i < count; i++) {
		data[i] = (const uint8_t *)&packets[i];
		expected[i] = first_match(filters, rules, &packets[i]);
	}
	for (size_t a = 0; a < sizeof(algorithms) / sizeof(*algorithms); a++) {
		if (rte_acl_set_ctx_classify(context, algorithms[a].number))
			continue;
		for (size_t b = 0; b < sizeof(batches) / sizeof(*batches); b++) {
			double samples[7];
			size_t differ = 0;

			for (int pass = -1; pass < 7; pass++) {
				began = now();
				for (size_t i = 0; i < count; i += batches[b]) {
					size_t rest = count - i;
					uint32_t n = rest < batches[b] ? rest : batches[b];

					rte_acl_classify(context, data + i, found + i, n, 1);
				}
				if (pass >= 0)
					samples[pass] = (now() - began) * 1e9 / count;
			}
			for (size_t i = 0; i < count; i++)
				differ += found[i] != expected[i];
			qsort(samples, 7, sizeof(*samples), by_value);
			printf("%s,%u,%.1f,%zu,%.3f\n", algorithms[a].name, batches[b],
			       samples[3], differ, build);
		}
	}
	return 0;
}
