import random

import pytest
import torch

from rloo_verify.attention import packed_group
from rloo_verify.packing import (
    NOTHING,
    Row,
    Scored,
    build_rows,
    collate_plain,
    collate_shared,
    micro_batches,
    shares,
)

PAIR = [Scored(0, (10, 11), (12, 13)), Scored(1, (10, 11), (14,))]


def test_completions_of_one_prompt_share_a_row():
    rows = build_rows([Scored(0, (1, 2), (3,)), Scored(1, (1, 2), (4, 5)), Scored(2, (9,), (6,))], 100)
    assert [[one.index for one in row.scored] for row in rows] == [[0, 1], [2]]
    assert [len(row) for row in rows] == [5, 2]  # 2 + 1 + 2 and 1 + 1


def test_a_group_over_the_budget_is_split_and_repeats_its_prompt():
    rows = build_rows([Scored(i, (1, 2), (7,) * 4) for i in range(3)], 10)
    assert [len(row) for row in rows] == [10, 6]  # 2 + 4 + 4, then the prompt again


def test_without_sharing_every_completion_has_its_row():
    assert [len(row) for row in build_rows(PAIR, 100, share_prompts=False)] == [4, 3]


def test_empty_completions_are_left_out():
    assert build_rows([Scored(0, (1,), ())], 100) == []


def test_the_shared_layout_by_hand():
    batch = collate_shared(build_rows([*PAIR, Scored(2, (20,), (21,))], 100))
    assert batch.token_ids_B_T.tolist() == [[10, 11, 12, 13, 14, 20, 21]]
    assert batch.position_ids_B_T.tolist() == [[0, 1, 2, 3, 2, 0, 1]]  # restarts after each prompt and for each prompt
    assert batch.attention_mask_B_T is None
    # both first tokens of the pair are predicted at the last prompt token, column 1
    assert batch.predictors_2_K.tolist() == [[0, 0, 0, 0], [1, 2, 1, 5]]
    assert batch.targets_K.tolist() == [12, 13, 14, 21]
    assert batch.owners_K.tolist() == [0, 0, 1, 2]
    first, second = batch.packed_groups
    assert (first.prompt_length, first.own_length, second.prompt_length, second.own_length) == (2, 3, 1, 1)
    assert first.columns_G_L.tolist() == [[0, 1], [2, 2]]
    assert first.places.tolist() == [0, 1, 2]  # the fourth is padding
    assert second.columns_G_L.tolist() == [[0]]


def test_a_packed_group_pads_each_completion_with_its_last_token():
    group = packed_group(3, [2, 1, 3], "cpu")
    assert group.columns_G_L.tolist() == [[0, 1, 1], [2, 2, 2], [3, 4, 5]]
    assert group.places.tolist() == [0, 1, 3, 6, 7, 8]


def test_the_plain_layout_by_hand():
    batch = collate_plain(build_rows(PAIR, 100, share_prompts=False))
    assert batch.token_ids_B_T.tolist() == [[10, 11, 12, 13], [10, 11, 14, 0]]
    assert batch.position_ids_B_T.tolist() == [[0, 1, 2, 3], [0, 1, 2, 2]]
    assert batch.attention_mask_B_T.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch.predictors_2_K.tolist() == [[0, 0, 1], [1, 2, 1]]
    assert batch.targets_K.tolist() == [12, 13, 14]
    assert batch.packed_groups is None


@pytest.mark.parametrize(
    ("padded", "expected"),
    [(False, [[10], [5, 5], [3, 2]]), (True, [[10], [5, 5], [3, 2]])],
)
def test_micro_batches_stay_within_their_budget(padded, expected):
    rows = build_rows([Scored(i, (i,), (1,) * n) for i, n in enumerate([9, 4, 4, 2, 1])], 100)
    assert [[len(row) for row in batch] for batch in micro_batches(rows, 10, padded=padded)] == expected


def test_padding_counts_towards_the_budget_of_padded_rows_only():
    rows = build_rows([Scored(i, (i,), (1,) * n) for i, n in enumerate([5, 2, 2])], 100)  # lengths 6, 3, 3
    assert [len(batch) for batch in micro_batches(rows, 12)] == [3]  # 6 + 3 + 3
    assert [len(batch) for batch in micro_batches(rows, 12, padded=True)] == [2, 1]  # 6 + 6, then 3


def test_a_row_over_the_budget_goes_alone():
    rows = build_rows([Scored(0, (1,), (2,) * 50), Scored(1, (3,), (4,))], 100)
    assert len(micro_batches(rows, 10)) == 2


def test_nothing_gives_no_micro_batches():
    assert micro_batches([], 10) == []
    assert torch.is_tensor(collate_shared(build_rows(PAIR, 100)).targets_K)


def test_shares_have_equal_cost_and_equal_numbers() -> None:
    rng = random.Random(3)
    sequences = [
        Scored(8 * i + j, (i, *range(20)), tuple(range(rng.randint(5, 60)))) for i in range(10) for j in range(8)
    ]
    for workers in (1, 2, 3, 8):
        each = shares(sequences, 256, workers, share_prompts=True, hidden_size=64)
        assert len(each) == workers
        assert len({len(batches) for batches in each}) == 1
        rows = [[row for batch in batches if batch is not NOTHING for row in batch] for batches in each]
        found = sorted(one.index for part in rows for row in part for one in row.scored)
        assert found == list(range(80))  # every completion once
        costs = [[len(row) + row.pairs / (6 * 64) for row in part] for part in rows]
        totals = [sum(part) for part in costs]
        assert max(totals) - min(totals) <= max(map(max, costs))  # what longest processing time first guarantees


def test_one_group_occupies_all_workers() -> None:
    sequences = [Scored(i, (1, 2, 3), (4,) * 10) for i in range(8)]  # 83 tokens, 42 a worker: 3 + 3 * 10 fit, 43 do not
    each = shares(sequences, 4096, 2, share_prompts=True, hidden_size=64)
    assert [[len(row) for batch in batches for row in batch] for batches in each] == [[33, 23], [33]]


def test_pairs_of_attention_are_counted_by_hand() -> None:
    # a prompt of 2 sees 1 + 2 keys; completions of 3 and of 1 see 2 + 1..3 and 2 + 1: 3 + (3 + 4 + 5) + 3 = 18
    assert Row((1, 2), [Scored(0, (1, 2), (3, 4, 5)), Scored(1, (1, 2), (6,))]).pairs == 18
