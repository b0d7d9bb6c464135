import random

import torch

from rloo_verify.packing import (
    Packing,
    Row,
    Scored,
    build_rows,
    collate_plain,
    collate_shared,
    micro_batches,
    shares,
)

FREE = Packing(0.0)

PAIR = [Scored(0, (10, 11), (12, 13)), Scored(1, (10, 11), (14,))]


def test_completions_of_one_prompt_share_a_row():
    rows = build_rows([Scored(0, (1, 2), (3,)), Scored(1, (1, 2), (4, 5)), Scored(2, (9,), (6,))], 100, packing=FREE)
    assert [[one.index for one in row.scored] for row in rows] == [[0, 1], [2]]
    assert [len(row) for row in rows] == [5, 2]  # 2 + 1 + 2 and 1 + 1


def test_a_group_over_the_budget_is_split_and_repeats_its_prompt():
    rows = build_rows([Scored(i, (1, 2), (7,) * 4) for i in range(3)], 10, packing=FREE)
    assert [len(row) for row in rows] == [10, 6]  # 2 + 4 + 4, then the prompt again


def test_without_sharing_every_completion_has_its_row():
    assert [len(row) for row in build_rows(PAIR, 100)] == [4, 3]


def test_empty_completions_are_left_out():
    assert build_rows([Scored(0, (1,), ())], 100) == []


def test_the_shared_layout_by_hand():
    batch = collate_shared(build_rows([*PAIR, Scored(2, (20,), (21,))], 100, packing=FREE))
    assert batch.token_ids_B_T.tolist() == [[10, 11, 12, 13, 14, 20, 21]]
    assert batch.position_ids_B_T.tolist() == [[0, 1, 2, 3, 2, 0, 1]]  # restarts after each prompt and for each prompt
    assert batch.attention_mask_B_T is None
    # both first tokens of the pair are predicted at the last prompt token, column 1
    assert batch.predictors_2_K.tolist() == [[0, 0, 0, 0], [1, 2, 1, 5]]
    assert batch.targets_K.tolist() == [12, 13, 14, 21]
    assert batch.owners_K.tolist() == [0, 0, 1, 2]
    (bundle,) = batch.packed_layout.bundles
    assert bundle.prompts_n_P.tolist() == [[0, 1], [5, 5]]  # the last place repeats as padding
    assert bundle.completions_C_L.tolist() == [[2, 3], [4, 4], [6, 6]]
    assert bundle.keys_C_S.tolist() == [[0, 1, 2, 3], [0, 1, 4, 4], [5, 5, 6, 6]]
    assert bundle.prompt_lengths_C.tolist() == [2, 2, 1]
    # the attention gives two prompts of 2 places, then three completions of 2: the padding is left out
    assert batch.packed_layout.order_T.tolist() == [0, 1, 4, 5, 6, 2, 8]


def test_a_prompt_is_shared_only_where_that_is_cheaper():
    row = Row((1, 2), PAIR)  # 2 + 2 + 1 = 5 tokens, in rows of their own 4 + 3 = 7
    assert Packing(0.39).pays(row)  # 5 * 1.39 = 6.95
    assert not Packing(0.41).pays(row)  # 5 * 1.41 = 7.05
    assert not FREE.pays(Row((1, 2), PAIR[:1]))
    assert [len(row) for row in build_rows(PAIR, 100, packing=Packing(0.41))] == [4, 3]


def test_the_plain_layout_by_hand():
    batch = collate_plain(build_rows(PAIR, 100))
    assert batch.token_ids_B_T.tolist() == [[10, 11, 12, 13], [10, 11, 14, 0]]
    assert batch.position_ids_B_T.tolist() == [[0, 1, 2, 3], [0, 1, 2, 2]]
    assert batch.attention_mask_B_T.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch.predictors_2_K.tolist() == [[0, 0, 1], [1, 2, 1]]
    assert batch.targets_K.tolist() == [12, 13, 14]
    assert batch.packed_layout is None


def pair(number, prompt, *lengths):
    return Row((number,) * prompt, [Scored(number, (number,) * prompt, (1,) * length) for length in lengths])


def alone(number, length):
    return pair(number, 1, length - 1)


def test_padding_counts_towards_the_budget_of_rows_of_one_completion():
    rows = [alone(0, 6), alone(1, 3), alone(2, 3)]
    assert [len(batch) for batch in micro_batches(rows, 12)] == [2, 1]  # 6 + 6, then 3
    assert [len(batch) for batch in micro_batches(rows, 18)] == [3]  # 6 + 6 + 6


def test_packed_micro_batches_are_as_few_as_fit_and_of_equal_size():
    rows = [pair(i, 1, 1, n - 2) for i, n in enumerate([8, 7, 6, 5, 4])]
    lengths = lambda budget: [[len(row) for row in batch] for batch in micro_batches(rows, budget)]  # noqa: E731
    assert lengths(22) == [[8, 5, 4], [7, 6]]  # not 8 + 7 + 6 and 5 + 4
    assert lengths(16) == [[8, 7], [6, 5, 4]]  # 8 + 5 + 4 = 17 would be over the budget


def test_packed_and_padded_rows_do_not_mix():
    rows = [alone(0, 3), pair(1, 2, 2, 1), alone(2, 4)]
    assert [[len(row) for row in batch] for batch in micro_batches(rows, 100)] == [[5], [4, 3]]


def test_a_row_over_the_budget_goes_alone():
    rows = build_rows([Scored(0, (1,), (2,) * 50), Scored(1, (3,), (4,))], 100)
    assert len(micro_batches(rows, 10)) == 2


def test_nothing_gives_no_micro_batches():
    assert micro_batches([], 10) == []
    assert torch.is_tensor(collate_shared(build_rows(PAIR, 100)).targets_K)


def test_shares_hold_every_row_once_and_differ_by_no_more_than_one_row() -> None:
    rng = random.Random(3)
    rows = [
        Row((1,) * 20, [Scored(8 * i + j, (1,) * 20, (2,) * rng.randint(5, 60)) for j in range(8)]) for i in range(10)
    ]
    costs = {id(row): len(row) + row.pairs / (6 * 64) for row in rows}
    cost = lambda row: costs[id(row)]  # noqa: E731
    for workers in (1, 2, 3, 8, 12):
        parts = shares(rows, workers, cost=cost)
        assert len(parts) == workers
        assert sorted(one.index for part in parts for row in part for one in row.scored) == list(range(80))
        totals = [sum(map(cost, part)) for part in parts]
        assert max(totals) - min(totals) <= max(costs.values())  # what longest processing time first guarantees


def test_the_longest_row_comes_first_and_goes_to_the_idlest() -> None:
    rows = [Row((1,), [Scored(i, (1,), (2,) * length)]) for i, length in enumerate((4, 9, 5, 6))]
    parts = shares(rows, 2, cost=len)  # 10 | 7, then 6 to the second, 5 to the first
    assert [[len(row) for row in part] for part in parts] == [[10, 5], [7, 6]]


def test_pairs_of_attention_are_counted_by_hand() -> None:
    # a prompt of 2 sees 1 + 2 keys; completions of 3 and of 1 see 2 + 1..3 and 2 + 1: 3 + (3 + 4 + 5) + 3 = 18
    assert Row((1, 2), [Scored(0, (1, 2), (3, 4, 5)), Scored(1, (1, 2), (6,))]).pairs == 18
