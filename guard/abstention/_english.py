"""English wordings of abstention.

Every gap in a pattern is bounded, and clauses are short: time is linear in the reply.
"""

# A pattern broken over lines is harder to read than a long one.
# ruff: noqa: E501
from __future__ import annotations

import re

from ._language import Language, Strength, compiled

# What an answer could have been taken from: these nouns mean nothing else in a reply …
_CONTEXT = (
    r"(?:contexts?|passages?|texts?|excerpts?|snippets?|knowledge base|documents?|search results?"
    r"|facts|paragraphs?|extracts?|(?:source|reference) materials?|documentation|article|citations?)"
)
# … and these do only with such a word before them.
_GIVEN = (
    r"(?:provided|given|available|supplied|retrieved|cited|above|current|existing|shared|attached"
    r"|presented|relevant|listed|referenced)"
)
_SOURCE = (
    rf"(?:{_CONTEXT}|{_GIVEN} (?:\w+ )?(?:information|materials?|details?|data|content|sources?"
    r"|references?|records?|sections?|pages?|answers?|guidelines?|rules|sets?)"
    rf"|(?:information|materials?|details?|data|content|sources?|facts?|answers?) {_GIVEN}"
    r"|information i have|what (?:is|was|has been) (?:provided|given))"
    r"(?: (?:that |which )?you (?:have )?(?:provided|gave|given|shared|supplied|cited))?"
)
_IN = r"(?:in|from|within|by|based on|under|per|using|with)"
_HERE = rf"\b{_IN} (?:(?:the|this|that|these|those|your|my|our|any|what) )?(?:[\w'-]+ ){{0,3}}?{_SOURCE}\b"
# Documents are also what people hand in: "no changes in the documents".
_STRICTLY_HERE = (
    rf"\b{_IN} (?:(?:the|this|that|these|those|your|my|our|any) )?(?:\w+ ){{0,2}}?(?:contexts?|passages?"
    rf"|texts?|excerpts?|snippets?|knowledge base|facts|{_GIVEN} (?:\w+ )?[a-z]+|what was provided)\b"
)
# "The context states that the plan does not cover …" tells something.
_STILL_SOURCE = (
    r"(?: (?!(?:states?|says?|shows?|indicates?|mentions?|explains?|clarif\w+|specif\w+|confirms?"
    r"|notes?|makes?|suggests?|implies|describes?|lists?|tells?|you|they|we|must|should|may"
    r"|stating|saying|stated|said|needs?|will)\b)[\w'()/-]+)"
)
_ADVERBS = (
    r"(?:(?:\w+ly|yet|even|also|itself|further|ever|seem to|appear to|in any way|in detail"
    r"|currently|been|being) ){0,4}"
)
_POINTEDLY = r"(?:explicitly|directly|specifically|clearly|expressly|precisely|explicit|detailed)"
_TELL = (
    r"(?:mention|specif(?:y|ies)|provide|address|contain|include|state|discuss|describe|explain|give"
    r"|offer|indicate|cover|detail|list|define|clarify|outline|say|elaborate|reveal|disclose|answer"
    r"|identify|touch|refer|speak|tell|show|present|advise|note|supply|go into|shed|establish"
    r"|confirm|suggest|support|have|comment|make|convey|name|talk|(?:allow|let|enable|permit) (?:me|us|one)|enumerate"
    r"|feature|hold|reference|deal|set out|spell|stipulate|prescribe|quantify|relate|pertain)"
)
_TOLD = (
    r"(?:mentioned|specified|addressed|stated|discussed|described|explained|detailed|defined"
    r"|clarified|outlined|elaborated|spelled out|referenced|touched|set out|answered|stipulated"
    r"|referred to|spelt out|enumerated|commented)"
)
_THERE = (
    r"(?:provided|given|covered|available|included|found|listed|known|indicated|disclosed|clear"
    r"|contained|present|established|documented|identified|noted|part|shown|supported|offered"
    r"|supplied|located|presented|derived|confirmed|determined|featured|evident|made clear)"
)
_WORDS = (
    r"(?:information|mention|details?|indication(?! of (?!whether|how|what|when|who|if|any))|guidance|citations?|context|explanations?|answers?"
    r"|facts?|specifics|clarity|info|discussion|descriptions?|clarification|specification|clue"
    r"|references?|instructions?|data|elaboration|opinions?|statements?)"
)
# "No data limit" and "no information is needed" speak of the world, not of the source.
_ABOUT = (
    r"(?=\W*$|[,.:;)]| (?:on|about|regarding|in|that|concerning|whether|as to|available|provided|given"
    r"|found|here|which|indicating|explicitly|directly|specifically|relat\w+|pertaining|covering"
    r"|explaining|suggesting|mentioned|at hand|within|how|what|when|where|who|why|and|or|this"
    r"|beyond|from|of|to (?:answer|determine|support|confirm|suggest|provide|indicate|say|address"
    r"|verify|respond|conclude|clarify|back)|for (?:this|the|your|that|these|how|what)|(?:can|could) be (?:found|provided|given|derived)"
    r"|(?:is|are|was|were|has been|have been|exists?) ?(?:\w+ly )?(?:available|provided|given|found|present|included|mentioned|"
    r"contained|listed|stated|offered|specified|in|here|for|on|about|regarding|$)|supporting|specific|addressing|specifying"
    r"|describing|discussing|outlining|detailing|linking|defining|stating|confirming|clarifying|were|was))"
)
_PROVIDE_INFORMATION = (
    r"(?:provide|offer|give|supply|share)(?: \w+){0,6}? (?:information|details?|answers?|guidance|advice|response"
    r"|specifics|data|explanation|opinion|recommendations?|figures?|context|insights?|clarification|estimates?)"
)
_KNOW = (
    rf"(?:know(?! of any (?:exceptions?|restrictions?|limits?|reasons?))|answer|say|tell|find|determine|confirm|locate|see|identify|help|{_PROVIDE_INFORMATION}"
    r"|assist|comment|advise|verify|access|certain|sure|aware|familiar|speculate|guess|respond"
    r"|establish|infer|conclude|recall|remember|clear|make (?:a|any) (?:claim|statement)"
    r"|have (?:\w+ ){0,4}?(?:information|access|details?|data|knowledge|answers?|context|records?"
    r"|facts?|evidence|guidance|insights?|ability|means|sources?|specifics))"
)
_ANSWER = (
    rf"(?:answer|determine|say|tell|find|confirm|locate|verify|identify|know|ascertain|respond|{_PROVIDE_INFORMATION}"
    r"|establish|help|assist|infer|conclude|clarify|specify|state|comment|advise|provide (?:an?|any|the|that|this) )"
)
_SHORT_OF = r"(?:not enough|insufficient|inadequate|too little|limited|no sufficient|not sufficient|incomplete)"
_NO_MORE = r"(?! (?:longer|later|matter|more than|less than|fewer than|need|one)\b)"
_SELF = r"(?:\bi\b|\bwe\b)"

_REFUSALS = (
    # The speaker does not know, or cannot answer.
    (Strength.EXPLICIT, rf"{_SELF} (?:do|did|can|could|am|are|was|were|would|have|will) not {_ADVERBS}(?:(?:be|really|quite|in a position|able|been able|to|safely) )*{_KNOW}\b"),
    (Strength.EXPLICIT, rf"(?:^|{_SELF} (?:am|are|was|were|remain) |sorry,? |{_SOURCE},? |so |therefore,? )(?:\w+ly )?unable to {_ANSWER}\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:am|are|was|were) (?:\w+ly )?(?:unsure|uncertain|unaware|not sure|unfamiliar)\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:have|had|found|see|find|possess) no (?:\w+ ){{0,3}}?(?:idea|information|knowledge|answers?|data|clue|access|records?|details?|mention|evidence|way|context|reference)\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:lack|failed to find|could find no|can find no)\b"),
    (Strength.EXPLICIT, r"^(?:(?:sorry|apologies|unfortunately|honestly|hmm|well|no|based on [\w ]{1,60}|(?:no citation )?(?:and|as|so|therefore|thus|hence))\b[,;:]? ?)*(?:(?:do|did) not know|not sure|no idea|unsure|can not (?:answer|say|tell|determine|be (?:answered|determined))|idk|dunno)\b"),
    (Strength.EXPLICIT, r"\b(?:question|query|this|that|it|which) (?:\w+ )?(?:can|could) not (?:\w+ ){0,2}?be (?:\w+ ){0,2}?(?:answered|determined|ascertained|inferred|deduced|addressed|derived)\b"),
    (Strength.EXPLICIT, r"\b(?:unanswerable|(?:can|could) not (?:\w+ ){0,2}?be (?:\w+ly )?(?:answered|ascertained|inferred|deduced))\b"),
    (Strength.EXPLICIT, rf"\b(?:it is |is )?(?:not possible|impossible|not feasible|no way|^not able) (?:for me )?to {_ANSWER}\b"),
    (Strength.EXPLICIT, r"\b(?:can|could) not (?:be )?(?:\w+ly )?(?:answer|respond to|address) (?:this|that|the|your)\b(?: \w+){0,2}? ?(?:question|query|request)"),
    (Strength.EXPLICIT, rf"\b(?:not|nothing) (?:something|a question|anything)? ?(?:that |which )?{_SELF} (?:can|could|am able to|are able to) {_ANSWER}\b"),
    (Strength.EXPLICIT, rf"{_SELF} (?:can|could) not {_ADVERBS}(?:(?:check|judge|assess|evaluate|work out)(?: at the moment| right now| reliably)? (?:whether|if)\b|(?:read|understand|make sense of) (?:your|this|the) (?:question|query|message|request)\b|search (?:the|my|our) (?:documents?|knowledge base|sources?|database|index)\b)"),
    (Strength.EXPLICIT, rf"{_SELF} (?:have )?found nothing (?:about|on|regarding|concerning|that|to|in)\b"),
    (Strength.EXPLICIT, r"\b(?:question|query|it|this|that) has no (?:correct|right|valid|true|definite|possible|known) answer\b"),
    # The source does not say.
    (Strength.SILENT, r"\b(?:has|have|was|were|is|are) not (?:been )?(?:made available|provided|given|supplied|shared|available|known) (?:to|with) (?:me|us)\b"),
    (Strength.SILENT, r"\bi (?:have|was|am) not (?:been )?(?:given|provided|supplied|told|shown)\b"),
    (Strength.SILENT, rf"\b(?:none|neither|nothing) (?:of|in) (?:(?:the|these|those|your|my) )?(?:\w+ ){{0,2}}?{_SOURCE}(?: \w+)? (?:relates?|pertains?|discuss(?:es)?|covers?|answers?|deals?|refers?|describes?|provides?|gives?|speaks?|touch(?:es)?|says?|tells?|helps?|concerns?|contains? (?:any )?(?:information|details?))\b"),
    (Strength.SILENT, rf"\b(?:can|could) not be (?:\w+ly )?(?:resolved|settled|decided|gleaned|gathered|concluded|substantiated|inferred|obtained|assessed)\b[^.]{{0,30}}?{_STRICTLY_HERE}"),
    (Strength.SILENT, r"^(?:the )?(?:details?|information|specifics|guidance|figures?|facts?) (?:on|about|regarding|concerning|for|of|as to)\b[^.]{3,200}? (?:is|are|was|were) not (?:\w+ly )?(?:provided|given|available|included|covered|present|listed|found|supplied)$"),
    (Strength.SILENT, r"\b(?:the|a|any) (?:relevant|specific|applicable|corresponding|necessary) facts?\b[^.]{0,120}? (?:is|are|was|were) not (?:\w+ly )?(?:provided|given|available|included|present|listed|found|supplied)\b"),
    (Strength.SILENT, r"^no (?:\w+ )?(?:facts?|passages?|documents?|sources?|texts?|context) (?:\w+ ){0,3}?(?:states?|mentions?|says?|address(?:es)?|discuss(?:es)?|covers?|specif(?:y|ies)|gives?|describes?|explains?|confirms?|indicates?|answers?)\b"),
    (Strength.SILENT, r"\bnothing (?:is|was|has been) (?:said|stated|written|given|provided) (?:about|on|regarding|as to|concerning)\b"),
    (Strength.SILENT, rf"\bnot (?:something|anything|a (?:topic|point|matter)) (?:that |which )?(?:is )?(?:(?:the |these |those )?{_SOURCE} (?:\w+ )?(?:address|cover|mention|discuss|specif|state|provide|describe|explain|contain|deal)|(?:{_TOLD}|{_THERE})\b[^.]{{0,40}}?{_HERE})"),
    (Strength.SILENT, r"\bnot (?:contained |included )?in (?:the|any) (?:materials?|information|facts|documents?|texts?|passages?|context)(?: that)? (?:i|we) (?:was|were|have|am|had|can)\b"),
    (Strength.SILENT, r"^the answer(?: to [^.]{1,80})? is not (?:\w+ )?(?:available|provided|given|known|there|present|found)\b"),
    (Strength.SILENT, rf"\b{_SOURCE},? which (?:do|does|did) not {_ADVERBS}{_TELL} (?:this|that|the|any|such|information|details|enough|anything|an answer)\b"),
    (Strength.SILENT, rf"^(?:the|this|these|those) (?:\w+ )?{_SOURCE} (?:\w+ )?(?:is|are|was|were) not (?:\w+ly )?(?:about|related to|relevant to|concerned with)\b"),
    (Strength.SILENT, r"^the (?:question|query|prompt) (?:do|does|did) not (?:\w+ly )?(?:provide|contain|give|include|specify|offer) (?:any|enough|sufficient|the) (?:\w+ ){0,2}?(?:information|context|details?|data|answers?)\b"),
    (Strength.SILENT, r"^(?:the|this|your) (?:question|query|prompt) (?:is|was|seems|appears)(?: to be)? (?:\w+ )?(?:ambiguous|unclear|incomplete|vague|not clear)\b"),
    # From the start on, so that "Doctor Who is not specified" is no relative clause.
    (Strength.SILENT, rf"^the [\w '-]{{3,120}}? (?:is|are|was|were) not (?:\w+ly )?(?:specified|mentioned|stated|named|indicated|disclosed)(?:$| {_HERE}[^.]{{0,30}}$)"),
    (Strength.SILENT, r"\b(?:there is|i (?:see|find|found)) nothing (?:\w+ )?here (?:on|about|regarding|that)\b"),
    (Strength.SILENT, rf"\b{_SOURCE}\b{_STILL_SOURCE}{{0,10}}? (?:do|does|did|can|could|would|has|have|is|are|was|were) not {_ADVERBS}{_TELL}"),
    (Strength.SILENT, rf"\b{_SOURCE}\b{_STILL_SOURCE}{{0,6}}? (?:lacks?|omits?|fails? to|says? nothing|(?:makes?|made|offer(?:s|ed)?|contain(?:s|ed)?|gives?|gave|provide[sd]?|has|have|had|include[sd]?|holds?|held|show(?:s|ed)?|list(?:s|ed)?) (?:no|nothing|neither|few|little)\b|is silent|are silent|is missing|only (?:\w+ )?(?:mentions?|covers?|states?|discusses|describes?|addresses|refers?|provides?|contains?))"),
    (Strength.SILENT, rf"\b(?:is|are|was|were|has|have|isnt)? ?not {_ADVERBS}{_TOLD}\b(?! otherwise)"),
    (Strength.SILENT, rf"\bnot (?:\w+ )?{_POINTEDLY} (?:\w+ )?{_THERE}\b"),
    (Strength.SILENT, rf"\bnot {_ADVERBS}(?:a )?{_THERE}\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:there (?:is|are|was|were|seems? to be|appears? to be)|^) ?(?:currently |also |simply |therefore |thus )?(?:no|not any)\b(?: [\w'/-]+){{0,4}}? {_WORDS}\b{_ABOUT}"),
    (Strength.SILENT, rf"\bno (?:\w+ly )?(?:relevant|specific|direct|explicit|clear|further|additional|supporting|exact|detailed|particular|concrete|definitive|available|known|applicable|other|corresponding)(?: [\w'/-]+){{0,3}}? {_WORDS}\b{_ABOUT}"),
    (Strength.SILENT, rf"\bno{_NO_MORE}(?:,? (?!as (?:is |was )?{_TOLD})[\w'\"()/&-]+){{1,18}}? {_TOLD}\b(?!.{{0,120}}, so (?:you|they|it|members|applicants) (?:can|may|need|do|are|will|must|should)\b)"),
    (Strength.SILENT, rf"\bno (?:specific|direct|explicit|relevant|clear|particular|exact)\b(?:,? [\w'\"()/&-]+){{1,18}}? {_THERE}\b"),
    (Strength.SILENT, r"\bno (?:specific|direct|explicit|relevant|clear)\b(?: [\w'\"()/&-]+){0,6}? (?:provides?|addresses|indicates?|mentions?|states?|specifies|explains?|describes?|covers?)\b"),
    (Strength.SILENT, rf"\b(?:no|nothing)\b{_NO_MORE}[^.]{{0,100}}?\b(?:{_THERE}|{_TOLD}|exists?|appears?|mention)\b[^.]{{0,20}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:no|nothing|nowhere|none)\b{_NO_MORE}(?: [\w'/-]+){{0,8}}? {_STRICTLY_HERE}"),
    (Strength.SILENT, rf"\b(?:nothing|nowhere|none|neither)\b(?: [\w'/-]+){{0,8}}? (?:is |are |was |were )?(?:{_TOLD}|mentions?|address(?:es)?|specif(?:y|ies)|states?|explains?)\b"),
    (Strength.SILENT, rf"\b(?:unclear|unknown|unspecified|uncertain|undisclosed|unstated|unmentioned|unavailable|inconclusive|undetermined|undefined|missing|absent|lacking)\b[^.]{{0,50}}?{_HERE}"),
    (Strength.SILENT, rf"\b(?:do|does|did) not {_ADVERBS}(?:have an?|provide|specify|mention|state|give|explain|detail|describe|address|discuss|clarify)\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, r"^(?:it|they|this|that|these) (?:do|does|did) not (?:\w+ly )?(?:mention|specify|address|state|discuss|describe|explain|detail|clarify|elaborate|define|outline|indicate)\b"),
    (Strength.SILENT, rf"\b{_SOURCE}\b(?: \w+)? (?:do|does|did) not$"),
    (Strength.SILENT, rf"\b(?:is|are|was|were) not (?:\w+ )?{_STRICTLY_HERE}"),
    (Strength.SILENT, r"\b(?:unspecified|unmentioned|unstated|unaddressed|undetermined)\b"),
    (Strength.SILENT, rf"\b(?<!with ){_SHORT_OF} (?:\w+ ){{0,2}}?(?:information|context|data|details?|evidence|facts?|knowledge|material)\b"),
    (Strength.SILENT, rf"\b(?:information|context|data|details?|evidence|facts|material)\b(?: \w+){{0,4}}? (?:is|are) {_SHORT_OF}"),
    (Strength.SILENT, rf"\b(?:outside|beyond)(?: of)? (?:the )?(?:\w+ ){{0,3}}?(?:scope|range|extent) of (?:[\w']+ ){{0,4}}?(?:{_SOURCE}|knowledge|information|expertise|data)"),
    (Strength.SILENT, rf"\b(?:outside|beyond)(?: of)? (?:my|our|what|{_SOURCE}|the (?:\w+ ){{0,3}}?{_SOURCE})"),
    (Strength.SILENT, rf"\b(?:specific|further|more|additional|exact|clear)(?: [\w']+){{0,3}}? (?:information|details?|guidance|data)\b(?: [\w']+){{0,8}}? (?:is|are) (?:not|unavailable|missing|needed|required) ?(?:\w+ )?(?:to {_ANSWER}|available|provided|given|included|here|$)"),
    (Strength.SILENT, rf"\b(?:more|further|additional) (?:\w+ )?(?:information|context|details?)\b(?: \w+){{0,4}}? to (?:\w+ly )?{_ANSWER}\b"),
    (Strength.SILENT, rf"\b(?:can|could) not be (?:\w+ly )?{_THERE}\b[^.]{{0,60}}?{_HERE}"),
    (Strength.SILENT, r"^(?:there is )?(?:no|without) (?:\w+ )?citations?\b"),
    (Strength.SILENT, r"\b(?:is|are|was|were|remains?|stays?) (?:\w+ly |still |also |as yet |simply )?(?:unclear|unknown|undetermined|inconclusive|not (?:yet |entirely |fully |currently |publicly )?(?:clear|known|certain))\b(?!-| (?:to|as|for|by)\b)"),
    # What real answers say as well.
    (Strength.HINT, rf"\bno (?:[\w'/-]+ ){{0,3}}?(?:{_WORDS}|evidence|records?|statement|requirement|indication|consensus)\b{_ABOUT}"),
    (Strength.HINT, r"\b(?:is|are|was|were|remains?|stays?) (?:\w+ly |still |also |as yet )?(?:uncertain|undisclosed|not (?:yet |publicly )?(?:disclosed|public))\b"),
    (Strength.HINT, r"\b(?:can|could) not be (?:\w+ly )?(?:determined|established|confirmed|derived|concluded|identified|verified|known)\b"),
    (Strength.HINT, r"\b(?:not|hard|difficult) (?:easy )?to (?:say|know|tell|determine|predict)\b"),
    (Strength.HINT, r"\b(?:as an ai|my (?:training|knowledge)|knowledge cut-?off|real-?time (?:information|data|access))\b"),
    (Strength.HINT, r"\b(?:could|can|would) you (?:please )?(?:provide|clarify|share|specify|give|elaborate)\b"),
    (Strength.HINT, r"\bplease (?:provide|share|supply|clarify|specify)\b(?: \w+){0,3}? (?:context|information|details?|documents?|question)"),
    (Strength.HINT, r"\b(?:without|need|require) (?:more|further|additional|specific|any|the relevant) (?:\w+ )?(?:context|information|details?)\b"),
)  # fmt: skip

ENGLISH = Language(
    refusals=compiled(_REFUSALS),
    conditions=re.compile(
        r"(?:^|[,:(] ?|\b(?:and|or|only|even|that|then) )(?:if|unless|when|whenever|where|in case|until|once|should|for"
        r" (?:those|anyone|people|items|cases))\b[^,]{0,200}$"
        # Another's words, or words about words.
        r"|\b(?:said|saying|say|replied|answered|responded|wrote|phrase|words?|sentence|titled|called|named|song|means)\b[^\"']{0,20}[\"'][^\"]{0,60}$"
        r"|\b(?:if|whether)(?: (?:the|your|any|there|this|some|his|her|their))?(?: \w+)? $"
        r"|\b(?:who|whose|you|they|he|she) $"
    ),
    whole=re.compile(
        r"\W*(?:(?:i am |so |very )*(?:sorry|apologies|unfortunately)\b\W*)?"
        r"(?:(?:nobody|no one) knows|unknown|n ?/ ?a|n\. ?a\.|none|null|idk|dunno|tb[cd]|unanswerable|unclear|uncertain"
        r"|unsure|undetermined|unspecified|undisclosed|(?:i )?do not know|(?:i am )?not sure"
        r"|not (?:known|applicable|available|specified|mentioned|stated|provided|found|given)"
        r"|no (?:idea|clue|comment|information|info|data|citations?|context|response|results?"
        r"|relevant (?:information|context|facts?)|answers?(?: found| available| exists?)?)"
        r"|(?:i am )?unable(?: to (?:answer|say|respond|determine))?"
        r"|can not (?:answer|say|determine|be (?:answered|determined))"
        r"|(?:insufficient|not enough) (?:information|context|data)"
        r"|information not (?:available|found|provided))\W*"
    ),
    courtesy=re.compile(
        r"(?:(?:i am |we are |i |we )?(?:(?:so |very |really |deeply )?(?:sorry|apologi[sz]e|apologies|regret)|my apologies|unfortunately"
        r"|thank you|thanks|hello|hi|dear|sure|certainly|of course|good question|great question|hope this helps"
        r"|i hope this helps|let me know|please note|note)\b(?: \w+){0,6}"
        r"|(?:based on|according to|in|from|as per|given|looking at)(?: [\w']+){1,7})\W*"
    ),
    redirect=re.compile(
        r"\b(?:check|contact|consult|refer|reach out|visit|ask|seek|look (?:up|at|into)|speak|verify|enquire|inquire"
        r"|review|call|email|get in touch|turn to|approach|search)\b"
    ),
    source_talk=re.compile(
        rf"\W*(?:instead|rather|only|while|although|even though|though)?,? ?(?:(?:it|they|the (?:\w+ )?{_SOURCE}|{_SOURCE}|facts? \d+)(?: [\w']+){{0,2}}? )?(?:only |does |do |just |mainly |primarily )?"
        r"(?:says? only|mentions?|includes?|discuss(?:es)?|covers?|provides?|states?|focus(?:es)? on|describes?|contains?"
        r"|talks? about|refers?|lists?|outlines?|explains?|emphasi[sz]es?|relates? to|clarif(?:y|ies)|deals? with)\b"
        rf"|\W*(?:(?:rather|instead)|(?:the|this|these|those) (?:\w+ )?{_SOURCE} (?:\w+ )?(?:is|are|was|were)) about\b"
    ),
    yes_or_no=re.compile(r"\W*(?:yes|no)\b\W"),
)
